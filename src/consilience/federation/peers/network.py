"""How a site reaches its peers: over direct links, relays, or a shared folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.carrier import Carrier, Query
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.folder_carrier import FolderCarrier
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.sealing import Sealer
from consilience.federation.peers.zenoh_carrier import ZenohCarrier
from consilience.federation.peers.zenoh_config import Tls

CARRIERS = ("direct", "relay", "folder")


@dataclass(frozen=True)
class Network:
    """How a site reaches its peers."""

    carrier: str = "direct"
    """direct | relay | folder."""
    tls: Tls | None = None
    """For direct links and relays."""
    listen: str = ""
    """host:port, for direct links; empty to listen nowhere."""
    relays: tuple[str, ...] = ()
    """host:port of each relay. With direct links they are used for members that cannot be reached directly."""
    folder: str = ""
    """The shared folder: a path, or a URL that fsspec knows."""

    @property
    def needs_certificate(self) -> bool:
        """Whether the site must have a TLS certificate."""
        return self.carrier == "direct"


def open_carriers(
    network: Network,
    federation: Federation,
    me: str,
    role: str,
    answer: Callable[[Query], None] | None,
    watched: Mapping[str, tuple[str, ...]],
    reach: Callable[[int, str, str, bool], None],
    sealer: Sealer,
    outbox: Outbox | None = None,
) -> list[Carrier]:
    """The carriers of one process of a site, the preferred one first.

    Args:
        network: How the site reaches its peers.
        federation: The federation.
        me: The site's agent.
        role: The role of the process; empty if it only asks.
        answer: Is given questions to this process.
        watched: The roles in which each peer is watched for.
        reach: Is told which peers can be reached over which carrier.
        sealer: Opens what is in a folder.
        outbox: What is published in a folder.
    """
    if network.carrier == "folder":
        if outbox is None:
            raise ConsilienceError(
                "over a folder peers cannot be asked for predictions of samples. Use direct links or a relay."
            )
        return [FolderCarrier(network.folder, federation, me, role, outbox, sealer, watched, partial(reach, 0))]
    if network.tls is None or (network.carrier == "relay" and not network.relays):
        raise ConsilienceError("no relay is named: set `relay` in site.toml to a list of host:port.")
    carriers: list[Carrier] = []

    def new() -> ZenohCarrier:
        return ZenohCarrier(federation, me, role, answer, watched, partial(reach, len(carriers)))

    if network.carrier == "direct":
        carriers.append(new().listen(network.tls, network.listen, sealer.largest))
    for address in network.relays:
        carriers.append(new().dial(network.tls, address, sealer.largest))
    return carriers
