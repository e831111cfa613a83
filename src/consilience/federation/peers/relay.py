"""A relay: a Zenoh router in this process, to which sites dial out, and which passes their sealed messages on.

It has no member's keys and sees who talks to whom, when, and padded sizes. It passes on the keys of the federations on
its list, and nothing else; each address has few connections (connection_limiter.py).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

from consilience.base.errors import ConsilienceError
from consilience.base.files import LOCK, one_at_a_time
from consilience.federation.peers import keys
from consilience.federation.peers.carrier import ANSWERS, ROLES
from consilience.federation.peers.connection_limiter import ConnectionLimiter
from consilience.federation.peers.federation import check_address
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.peers.zenoh_config import key_of, open_session, tls_endpoint, zenoh_module

MOST_SITES = 1000
"""Connections to a relay, at most."""
LARGEST_MESSAGE = 600_000_000
"""Bytes of a message that a relay passes on, at most."""
_MESSAGES = [
    "query",
    "reply",
    "declare_queryable",
    "liveliness_token",
    "liveliness_query",
    "declare_liveliness_subscriber",
]


@final
class Relay:
    """A running relay.

    Args:
        listen: host:port at which sites reach it.
        federations: The `id` of each federation that it serves.
        key: The private key of its TLS certificate.
        certificate: The certificate.
        ca: With it, only sites with a certificate of this CA are let in.
    """

    def __init__(
        self, listen: str, federations: Sequence[str], key: Path, certificate: Path, ca: Path | None = None
    ) -> None:
        check_address(listen, "the address to listen at")
        if not federations:
            raise ConsilienceError("a relay serves the federations on its list. Name some: --allow federation.toml.")
        keys.read_certificate(certificate)
        self._limiter = ConnectionLimiter(listen, None, MOST_SITES)
        settings = _settings(f"127.0.0.1:{self._limiter.inner}", federations, key, certificate, ca)
        try:
            self._session = open_session(settings, MOST_SITES // 20)
        except zenoh_module().ZError as error:
            self._limiter.close()
            raise ConsilienceError(
                f"the relay cannot begin ({str(error).splitlines()[0][:200]}). Do {key} and {certificate} belong "
                "together?"
            ) from error
        self._limiter.start()

    @property
    def turned_away(self) -> int:
        """Connections that were closed at once: too many, or not TLS."""
        return self._limiter.turned_away

    def close(self) -> None:
        """Ends it."""
        self._limiter.close()
        self._session.close()  # type: ignore[no-untyped-call]


def federation_id(text: str) -> str:
    """The `id` of a federation, which `text` is, or which is in the federation file that it names."""
    path = Path(text)
    if path.suffix == ".toml" or path.is_file():
        return read_federation(path).id
    if not text.isalnum() or not text.isascii() or len(text) > 64:
        raise ConsilienceError(f"{text!r} is neither a federation file nor the `id` in one.")
    return text


def trial_certificate(authority: Path, host: str) -> tuple[Path, Path]:
    """Key and certificate of a relay at `host`, from a CA for trials, which is made if it does not exist."""
    folder = authority / f"relay-{host.strip('[]').replace(':', '-')}"
    keys.trial_authority(authority)
    with one_at_a_time(authority / LOCK):  # relays of one host share it
        if not (folder / "ca.crt").is_file():  # it is written last
            (folder / "tls.key").unlink(missing_ok=True)
            keys.issue_certificate(authority, folder, "relay", host)
    return folder / "tls.key", folder / "tls.crt"


def _settings(listen: str, federations: Sequence[str], key: Path, certificate: Path, ca: Path | None) -> dict[str, Any]:
    """Settings of a session that passes on what is under the keys of some federations."""
    names = [key_of(federation, "*", role) for federation in federations for role in (*ROLES, ANSWERS)]
    rule = {
        "id": "federations",
        "messages": _MESSAGES,
        "flows": ["ingress", "egress"],
        "permission": "allow",
        "key_exprs": names,
    }
    link = {"listen_private_key": str(key), "listen_certificate": str(certificate)}
    mutual = {"enable_mtls": True, "root_ca_certificate": str(ca), "close_link_on_expiration": True} if ca else {}
    return {
        "mode": "router",
        "listen/endpoints": [tls_endpoint(listen)],
        "transport/link/rx/max_message_size": LARGEST_MESSAGE,
        "transport/unicast/max_sessions": MOST_SITES,
        "transport/link/tls": link | mutual,
        "access_control": {
            "enabled": True,
            "default_permission": "deny",
            "rules": [rule],
            "subjects": [{"id": "everyone"}],
            "policies": [{"rules": ["federations"], "subjects": ["everyone"]}],
        },
    }
