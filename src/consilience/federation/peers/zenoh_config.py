"""A Zenoh session between the members of a federation: mutual TLS, explicit addresses, access by certificate."""

import json
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.connection_limiter import ConnectionLimiter
from consilience.federation.peers.federation import Federation

if TYPE_CHECKING:
    import zenoh

HANDSHAKE = 3000
"""Milliseconds after which a connection that has not shown a certificate is closed."""
OPEN_FILES = 65536
ROLES = ("agent", "check")
"""Kinds of processes of a site, each with its own liveliness token."""
ANSWERS = "answers"
"""The role of a process that answers questions about samples."""
_SPEAKS = ["reply", "declare_queryable", "liveliness_token"]
_ASKS = ["query", "liveliness_query", "declare_liveliness_subscriber"]


@dataclass(frozen=True)
class Tls:
    """Files of a site's PKI."""

    key: Path
    certificate: Path
    authority: Path
    """The CA that all members' certificates come from."""


def key_of(agent: str, asker: str, topic: str) -> str:
    """The Zenoh key under which `agent` answers the question of `asker` on a topic.

    Access is by certificate, so that nobody can ask in another's name.
    """
    return f"consilience/{agent}/{asker}/{topic}"


def token_of(agent: str, role: str) -> str:
    """The liveliness token of an agent's process in a role."""
    return f"consilience/{agent}/{role}"


def open_session(
    federation: Federation, me: str, tls: Tls, listen: str, largest: int, blocked: Collection[str] = ()
) -> "zenoh.Session":
    """A Zenoh session of one member.

    Args:
        federation: The federation.
        me: The member.
        tls: Its keys and certificates.
        listen: host:port, or empty to listen nowhere.
        largest: Bytes of a message, at most.
        blocked: Members whose certificates are not accepted.
    """
    # Closing a dead link blocks the thread that reads from it for ten seconds: each link needs a thread of its own.
    os.environ.setdefault("ZENOH_RUNTIME", f"(rx: (worker_threads: {2 + len(federation.roster)}))")
    _raise_file_limit()
    module = zenoh_module()
    config = module.Config()
    for path, value in _settings(federation, me, tls, listen, largest, blocked).items():
        config.insert_json5(path, json.dumps(value))
    try:
        session: zenoh.Session = module.open(config)
    except module.ZError as error:
        raise ConsilienceError(
            f"agent {me!r} cannot listen at {listen} ({_first_line(error)}). "
            "Is another process of this site running, or the address not this machine's? Set `listen` in site.toml."
        ) from error
    return session


def open_behind_limiter(
    limiter: ConnectionLimiter, federation: Federation, me: str, tls: Tls, largest: int, blocked: Collection[str] = ()
) -> "zenoh.Session":
    """A session of agent `me` that is reached through a limiter. If its port was taken meanwhile, it gets another."""
    for _ in range(2):
        with suppress(ConsilienceError):
            return open_session(federation, me, tls, f"127.0.0.1:{limiter.inner}", largest, blocked)
        limiter.choose_inner()
    return open_session(federation, me, tls, f"127.0.0.1:{limiter.inner}", largest, blocked)


def zenoh_module() -> Any:
    """The zenoh package, or an error that says how to get it."""
    try:
        import zenoh
    except ImportError as error:
        raise ConsilienceError("a federation needs more packages: pip install 'consilience[peers]'.") from error
    return zenoh


def _settings(
    federation: Federation, me: str, tls: Tls, listen: str, largest: int, blocked: Collection[str]
) -> dict[str, Any]:
    peers = [member for member in federation.roster if member.agent != me and member.agent not in blocked]
    return {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "adminspace/enabled": False,
        "listen/endpoints": [f"tls/{listen}#tls_handshake_timeout_ms={HANDSHAKE}"] if listen else [],
        "connect/endpoints": [f"tls/{member.address}" for member in peers],
        "connect/timeout_ms": -1,
        "connect/exit_on_failure": False,
        "connect/retry": {"period_init_ms": 500, "period_max_ms": 4000, "period_increase_factor": 1.5},
        "transport/link/rx/max_message_size": largest,
        "transport/unicast/accept_timeout": HANDSHAKE,
        "transport/unicast/max_sessions": 4 * len(federation.roster) + 8,
        "transport/shared_memory/enabled": False,
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
        "access_control": _access(federation, me, blocked),
    }


def _access(federation: Federation, me: str, blocked: Collection[str] = ()) -> dict[str, Any]:
    """Access rules: each member may answer under its own keys and ask in its own name; all else is denied.

    A member is whoever holds a certificate with the common name in the roster.
    """

    def rule(name: str, messages: list[str], flow: str, agent: str, asker: str = "") -> dict[str, Any]:
        keys = [key_of(agent, asker, "**"), *(token_of(agent, role) for role in (*ROLES, ANSWERS))]
        keys = keys if asker else [f"consilience/{agent}/**"]
        return {"id": name, "messages": messages, "flows": [flow], "permission": "allow", "key_exprs": keys}

    rules = [rule("answers", _SPEAKS, "egress", me)]
    subjects, policies = [], []
    for member in federation.roster:
        peer = member.agent
        if peer != me and peer not in blocked:
            speaks, asked, asks = f"{peer} speaks", f"{peer} is asked", f"{peer} asks"
            rules += [rule(speaks, _SPEAKS, "ingress", peer), rule(asked, _ASKS, "egress", peer, me)]
            rules.append(rule(asks, _ASKS, "ingress", me, peer))
            subjects.append({"id": peer, "cert_common_names": [member.certificate]})
            policies.append({"rules": ["answers", speaks, asked, asks], "subjects": [peer]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
