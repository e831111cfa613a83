"""What a firewall must allow for a site's carrier, and whether it does."""

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from consilience.federation.peers.federation import Federation
from consilience.federation.peers.network import Network
from consilience.federation.peers.site_check import tls_handshake


@dataclass(frozen=True)
class Route:
    """A connection that must be possible."""

    direction: str
    """out | in."""
    host: str
    """Whom it goes to, or comes from."""
    port: str
    purpose: str
    problem: str = ""
    """Why it is not possible now; empty if it is, or cannot be tried from here."""
    state: str = "not tried from here"


def routes(network: Network, federation: Federation, me: str, own_port: str = "") -> list[Route]:
    """The connections that a site's carrier needs; those to relays are tried.

    Args:
        network: How the site reaches its peers.
        federation: The federation.
        me: The site.
        own_port: Why the site cannot listen; empty if it can.
    """
    if network.carrier == "folder":
        url = urlsplit(network.folder)
        if url.scheme in ("", "file") or len(url.scheme) == 1:
            return [Route("-", "none", "-", f"the folder {network.folder}", state="written to and read")]
        server = "the server of the bucket"
        return [Route("out", server, "443 or its own", f"the bucket {url.netloc}", state="written to and read")]
    needed = [_relay(network, address) for address in network.relays]
    if network.carrier == "direct":
        others = [member for member in federation.roster if member.agent != me]
        for member in others:
            if member.address:
                needed.append(Route("out", member.host, str(member.port), member.agent, state="see its row below"))
        if network.listen:
            port, sources = network.listen.rpartition(":")[2], ", ".join(m.host or m.agent for m in others)
            needed.append(Route("in", sources, port, "all members", own_port, "this site can listen"))
    return needed


def _relay(network: Network, address: str) -> Route:
    host, _, port = address.rpartition(":")
    problem, certificate = tls_handshake(address, host, network.tls) if network.tls else ("no CA", None)
    if certificate is not None:
        problem = certificate.problem(datetime.now(UTC))
        problem = f"its certificate {problem}" if problem else ""
        return Route("out", host, port, "relay", problem, f"reached, certificate until {certificate.ends:%Y-%m-%d}")
    return Route("out", host, port, "relay", problem or "it shows no certificate")
