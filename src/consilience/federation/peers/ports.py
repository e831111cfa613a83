"""Ports for sites of one machine."""

import random
import socket
from contextlib import ExitStack

LOWEST, HIGHEST = 20_000, 32_000
"""Below those that systems give to outgoing calls (on Linux from 32,768 on): one of these may be gone soon after."""


def free_ports(count: int) -> list[int]:
    """So many ports of this machine that nobody uses, drawn at random."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.SystemRandom().sample(range(LOWEST, HIGHEST), HIGHEST - LOWEST):
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
    return [f"127.0.0.1:{port}" for port in free_ports(count)]
