"""Zenoh sessions of a federation's members: links between them with mutual TLS, or a link to a relay."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.federation import Federation

if TYPE_CHECKING:
    import zenoh

HANDSHAKE = 3000
"""Milliseconds after which a connection that has not shown a certificate is closed."""
OPEN_FILES = 65536


@dataclass(frozen=True)
class Tls:
    """Files of a site's PKI."""

    key: Path
    certificate: Path
    authority: Path
    """The CA that the certificates of all members, or of the relay, come from."""


def key_of(federation: str, agent: str, role: str) -> str:
    """The Zenoh key under which a process of an agent in a role is present, and answers sealed questions."""
    return f"consilience/{federation}/{agent}/{role}"


def open_session(settings: dict[str, Any], threads: int) -> "zenoh.Session":
    """A Zenoh session; a ZError if it cannot be opened. Nothing is shared with other sessions.

    Args:
        settings: What the session is for: `between_members`, `to_relay`, or those of a relay.
        threads: Number of links for which there should be a thread. Closing a dead link blocks the thread that reads
            from it for ten seconds, so that each link needs one of its own.
    """
    os.environ.setdefault("ZENOH_RUNTIME", f"(rx: (worker_threads: {2 + threads}))")
    _raise_file_limit()
    module = zenoh_module()
    config = module.Config()
    common = {
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "adminspace/enabled": False,
        "transport/unicast/accept_timeout": HANDSHAKE,
        "transport/shared_memory/enabled": False,
    }
    for path, value in (common | settings).items():
        config.insert_json5(path, json.dumps(value))
    session: zenoh.Session = module.open(config)
    return session


def between_members(federation: Federation, me: str, tls: Tls, listen: str, largest: int) -> dict[str, Any]:
    """Settings of a session that has links to the other members.

    Args:
        federation: The federation.
        me: The member.
        tls: Its keys and certificates.
        listen: host:port, or empty to listen nowhere.
        largest: Bytes of a message, at most.
    """
    peers = [member for member in federation.roster if member.agent != me and member.address]
    return {
        "mode": "peer",
        "listen/endpoints": [tls_endpoint(listen)] if listen else [],
        "connect/endpoints": [f"tls/{member.address}" for member in peers],
        "connect/timeout_ms": -1,
        "connect/exit_on_failure": False,
        "connect/retry": {"period_init_ms": 500, "period_max_ms": 4000, "period_increase_factor": 1.5},
        "transport/link/rx/max_message_size": largest,
        "transport/unicast/max_sessions": 4 * len(federation.roster) + 8,
        "transport/link/tls": {
            "root_ca_certificate": str(tls.authority),
            "listen_private_key": str(tls.key),
            "listen_certificate": str(tls.certificate),
            "connect_private_key": str(tls.key),
            "connect_certificate": str(tls.certificate),
            "enable_mtls": True,
            "verify_name_on_connect": True,
            "close_link_on_expiration": True,
        },
    }


def to_relay(address: str, tls: Tls, largest: int) -> dict[str, Any]:
    """Settings of a session with a link to a relay. The site's certificate is shown if there is one."""
    link: dict[str, Any] = {"root_ca_certificate": str(tls.authority), "verify_name_on_connect": True}
    if tls.certificate.is_file() and tls.key.is_file():
        own = {"connect_private_key": str(tls.key), "connect_certificate": str(tls.certificate)}
        link |= own | {"enable_mtls": True, "close_link_on_expiration": True}
    return {
        "mode": "client",
        "connect/endpoints": [f"tls/{address}"],
        "connect/timeout_ms": 0,
        "connect/retry": {"period_init_ms": 300, "period_max_ms": 4000, "period_increase_factor": 1.5},
        "transport/link/rx/max_message_size": largest,
        "transport/link/tls": link,
    }


def tls_endpoint(address: str) -> str:
    """The endpoint at which a session listens, with TLS."""
    return f"tls/{address}#tls_handshake_timeout_ms={HANDSHAKE}"


def zenoh_module() -> Any:
    """The zenoh package, or an error that says how to get it."""
    try:
        import zenoh
    except ImportError as error:
        raise ConsilienceError("a federation needs more packages: pip install 'consilience[peers]'.") from error
    return zenoh


def _raise_file_limit() -> None:
    """Raises the limit of open files: every connection of a stranger takes one, until it is closed."""
    if os.name != "posix":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft < most:
        with suppress(OSError, ValueError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
