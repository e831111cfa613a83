"""A Zenoh session between the members of a federation: mutual TLS, explicit addresses, access by certificate."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.errors import ConsilienceError
from consilience.federation.peers.federation import Federation

if TYPE_CHECKING:
    import zenoh

_SPEAKS = ["reply", "declare_queryable", "liveliness_token"]
_ASKS = ["query", "liveliness_query", "declare_liveliness_subscriber"]


@dataclass(frozen=True)
class Tls:
    """Files of a site's PKI."""

    key: Path
    certificate: Path
    authority: Path
    """The CA that all members' certificates come from."""


def key_of(agent: str, topic: str) -> str:
    """The Zenoh key under which `agent` answers requests on a topic."""
    return f"consilience/{agent}/{topic}"


def open_session(federation: Federation, me: str, tls: Tls, listen: str, largest: int) -> "zenoh.Session":
    """A session of agent `me`. `listen` is host:port, or empty to listen nowhere; `largest` the bytes of a message."""
    # Closing a link that is dead blocks the thread that reads from it for ten seconds: each link needs one of its own.
    os.environ.setdefault("ZENOH_RUNTIME", f"(rx: (worker_threads: {2 + len(federation.roster)}))")
    module = zenoh_module()
    config = module.Config()
    for path, value in _settings(federation, me, tls, listen, largest).items():
        config.insert_json5(path, json.dumps(value))
    try:
        session: zenoh.Session = module.open(config)
    except module.ZError as error:
        raise ConsilienceError(
            f"agent {me!r} cannot listen at {listen} ({_first_line(error)}). "
            "Is another process of this site running, or the address not this machine's? Set `listen` in site.toml."
        ) from error
    return session


def zenoh_module() -> Any:
    """The zenoh package, or an error that says how to get it."""
    try:
        import zenoh
    except ImportError as error:
        raise ConsilienceError("a federation needs more packages: pip install 'consilience[peers]'.") from error
    return zenoh


def _settings(federation: Federation, me: str, tls: Tls, listen: str, largest: int) -> dict[str, Any]:
    peers = [member for member in federation.roster if member.agent != me]
    return {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "adminspace/enabled": False,
        "listen/endpoints": [f"tls/{listen}"] if listen else [],
        "connect/endpoints": [f"tls/{member.address}" for member in peers],
        "connect/timeout_ms": -1,
        "connect/exit_on_failure": False,
        "connect/retry": {"period_init_ms": 500, "period_max_ms": 4000, "period_increase_factor": 1.5},
        "transport/link/rx/max_message_size": largest,
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
        "access_control": _access(federation, me),
    }


def _access(federation: Federation, me: str) -> dict[str, Any]:
    """Everything is denied, except that each member speaks under its own keys and asks for those of others.

    A member is whoever holds a certificate with the common name in the roster.
    """

    def rule(name: str, messages: list[str], flow: str, agent: str) -> dict[str, Any]:
        keys = [key_of(agent, "**")]
        return {"id": name, "messages": messages, "flows": [flow], "permission": "allow", "key_exprs": keys}

    rules = [rule("is asked", _ASKS, "ingress", me), rule("answers", _SPEAKS, "egress", me)]
    subjects, policies = [], []
    for member in federation.roster:
        if member.agent != me:
            speaks, asked = f"{member.agent} speaks", f"{member.agent} is asked"
            rules += [rule(speaks, _SPEAKS, "ingress", member.agent), rule(asked, _ASKS, "egress", member.agent)]
            subjects.append({"id": member.agent, "cert_common_names": [member.certificate]})
            policies.append({"rules": ["is asked", "answers", speaks, asked], "subjects": [member.agent]})
    return {
        "enabled": True,
        "default_permission": "deny",
        "rules": rules,
        "subjects": subjects,
        "policies": policies,
    }


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
