"""Ports for sites of one machine."""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack

INNER_PORTS, SITE_PORTS = range(10_000, 20_000), range(20_000, 32_000)
"""Ports behind the doors of sites, and those at which sites of a trial are reached: no one takes one of the other kind.

They are below those that systems give to outgoing calls (on Linux from 32,768 on): one of these may be gone soon after.
"""


def free_ports(count: int, among: Sequence[int]) -> list[int]:
    """So many ports of this machine that nobody uses, drawn at random. One may be taken before it is used."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(among, len(among)):
            if len(found) == count:
                break
            one = held.enter_context(socket.socket())
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


def free_addresses(count: int) -> list[str]:
    """So many addresses on loopback that nobody listens at."""
    return [f"127.0.0.1:{port}" for port in free_ports(count, SITE_PORTS)]
