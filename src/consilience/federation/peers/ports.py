"""Ports for sites of one machine."""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress

INNER_PORTS, SITE_PORTS = range(10_000, 20_000), range(20_000, 32_000)
"""Ports behind connection limiters, and ports of the sites of a trial: the two ranges do not overlap.

Both are below the ports that systems give to outgoing connections (on Linux from 32,768 on), which may be taken soon.
"""


def free_ports(count: int, among: Sequence[int]) -> list[int]:
    """`count` unused ports of this machine, drawn at random. One may be taken before it is used."""
    ports: list[int] = []
    with ExitStack() as stack:
        for port in random.SystemRandom().sample(among, len(among)):
            if len(ports) == count:
                break
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def free_addresses(count: int) -> list[str]:
    """`count` unused addresses on loopback."""
    return [f"127.0.0.1:{port}" for port in free_ports(count, SITE_PORTS)]
