"""`consilience watch` of a site.toml: the states of all members of the federation."""

from contextlib import suppress
from pathlib import Path

from consilience.cli.common_options import console


def watch_members(site_file: Path, host: str, port: int, once: bool) -> None:
    """Serves the states of all members, or prints them once."""
    with console.status("Loading ..."):
        from consilience.federation.consortium import FIRST, Consortium
        from consilience.federation.site import load_site
        from consilience.report.consortium import ConsortiumPage, states_grid

        loaded = load_site(site_file)
        name, consortium = loaded.federation.name, Consortium(loaded)
    try:
        if once:
            console.print(states_grid(name, consortium.look(FIRST)))
            return
        page = ConsortiumPage(consortium, name, host, port)
        console.print(f"Watch it at {page.address}", soft_wrap=True, highlight=False)
        with suppress(KeyboardInterrupt):
            while True:
                consortium.look()
        page.close()
    finally:
        consortium.close()
