"""Network namespaces for trials: sites that reach a relay and nothing else, not even each other."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from consilience.base.errors import ConsilienceError

RELAY = "10.199.0.1"
"""The address of the relay."""


@contextmanager
def star(sites: Sequence[str]) -> Iterator[dict[str, str]]:
    """Makes a network namespace for each site and, under the name "", one for a relay; removes them afterwards.

    Each site has a cable to the relay, which passes nothing on: sites have no route to each other. It needs Linux and
    root; without, a ConsilienceError says so.
    """
    if not hasattr(os, "geteuid") or os.geteuid() or not shutil.which("ip"):
        raise ConsilienceError("network namespaces need Linux, root and the program `ip`.")
    names = {"": f"cns{os.getpid()}-relay"} | {
        site: f"cns{os.getpid()}-{number}" for number, site in enumerate(sites, 1)
    }
    made: list[str] = []
    try:
        for name in names.values():
            _ip(f"netns add {name}")
            made.append(name)
            _ip(f"-n {name} link set lo up")
        _ip(f"-n {names['']} addr add {RELAY}/32 dev lo")
        for number, site in enumerate(sites, 1):
            name, near, far = names[site], f"10.199.{number}.1", f"10.199.{number}.2"
            _ip(f"-n {names['']} link add port{number} type veth peer name uplink netns {name}")
            _ip(f"-n {names['']} addr add {near}/30 dev port{number}")
            _ip(f"-n {names['']} link set port{number} up")
            _ip(f"-n {name} addr add {far}/30 dev uplink")
            _ip(f"-n {name} link set uplink up")
            _ip(f"-n {name} route add {RELAY}/32 via {near}")
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """The command that runs a command in a namespace; itself without one."""
    return ["ip", "netns", "exec", namespace, *command] if namespace else list(command)


def _ip(arguments: str) -> None:
    done = subprocess.run(["ip", *arguments.split()], check=False, capture_output=True, text=True)
    if done.returncode:
        raise ConsilienceError(f"a network namespace cannot be made here: ip {arguments}: {done.stderr.strip()[:200]}")
