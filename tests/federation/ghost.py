"""Keeps links to a site's peers under the identity of the site's first session: `ghost.py SITE IDENTITY`.

To the peers it is that session, and they let nobody else in under its identity.
"""

import sys
import time
from pathlib import Path

from consilience.federation.peers import zenoh_config as link
from consilience.federation.site import load_site


def main(site: Path, identity: str) -> None:
    """Says again and again to how many peers it is linked."""
    prepared = load_site(site)
    settings = link.between_members(prepared.federation, prepared.site.agent, prepared.tls, "", 10**8)
    session = link.open_session(settings | {"id": identity}, 4)
    while True:
        print(f"linked to {len(session.info.peers_zid())}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
