"""The federation file: what every site holds in the same form. Its hash is the run's identity."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from consilience import toml
from consilience.errors import ConsilienceError
from consilience.federation.peers.keys import is_public_key
from consilience.methods.protocol import Method
from consilience.options import Options, flat, from_table, option, to_table
from consilience.settings.settings import Settings, settings_agreed
from consilience.tasks.protocol import Array

LARGEST_FILE = 1_000_000
"""Bytes of a federation file that is still read."""


@dataclass(frozen=True)
class Member(Options):
    """One organisation's public part: what its peers need to know of it."""

    agent: str = option(meaning="the name of its agent")
    address: str = option(meaning="host:port where its peers reach it")
    certificate: str = option(meaning="the common name in its TLS certificate")
    key: str = option(meaning="its Ed25519 public key in hexadecimal")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_name(self.agent)
        if not re.fullmatch(_ADDRESS, self.address):
            raise ConsilienceError(f"the address {self.address!r} of {self.agent} is not host:port.")
        if not is_public_key(self.key):
            raise ConsilienceError(f"the key of {self.agent} is no Ed25519 public key in hexadecimal.")

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self.address.rpartition(":")[2])


_ADDRESS = r"([A-Za-z0-9._-]+|\[[A-Fa-f0-9:.]+\]):[0-9]{1,5}"
"""A name or an IPv4 address, or an IPv6 address in brackets; and a port."""


@dataclass(frozen=True)
class Federation(Options):
    """Who takes part, on which shared data, with which method."""

    name: str = option(meaning="the federation's name")
    id: str = option(meaning="random, so that nothing signed in one federation is valid in another")
    classes: tuple[str, ...] = option(meaning="names of the classes, in order")
    shared_samples: int = option(meaning="how many samples the shared data have", at_least=1)
    shared: str = option(meaning="fingerprint of the shared data, order included")
    deadline: float = option(meaning="seconds after which a round closes without those who are still missing", above=0)
    quorum: int = option(meaning="agents, this one included, without whom no round closes")
    settings: dict[str, Any] = option(meaning="the tables of settings on which all agree")
    roster: tuple[Member, ...] = option(meaning="members, in the order of rows and columns of every trust matrix")
    on_suspicion: str = option(
        "warn",
        "a peer that repeats itself, another or us: warn | exclude (from that round)",
        one_of=("warn", "exclude"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_name(self.name)
        problem = self._problem()
        if problem:
            raise ConsilienceError(f"federation {self.name!r}: {problem}.")

    def _problem(self) -> str:
        """What is wrong with the members, the quorum or the classes; empty if nothing is."""
        members = len(self.roster)
        for what, values in (
            ("agent", self.names),
            ("certificate name", [member.certificate for member in self.roster]),
            ("key", [member.key for member in self.roster]),
        ):
            if len(set(values)) < members:
                return f"two members have the same {what}"
        if members < 2:
            return "a federation needs at least two members"
        if not members / 2 < self.quorum <= members:
            return (
                f"the quorum is {self.quorum} of {members}; it must be more than half, "
                "so that two separated parts never both go on"
            )
        return "" if len(self.classes) > 1 else "there must be at least two classes"

    @property
    def names(self) -> tuple[str, ...]:
        """Agents in the order of the roster."""
        return tuple(member.agent for member in self.roster)

    def member(self, agent: str) -> Member:
        """The entry of `agent`."""
        for member in self.roster:
            if member.agent == agent:
                return member
        raise ConsilienceError(f"agent {agent!r} is not in federation {self.name!r}. It has: {', '.join(self.names)}.")

    def identity(self) -> bytes:
        """SHA-256 over every field."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()

    @cached_property
    def agreed(self) -> Settings:
        """The settings on which all agreed, with the defaults for what is each machine's own.

        They name a method and a trust rule that this site has; they cannot load a plugin. The settings of a peer's file
        are never read, only compared.
        """
        settings = settings_agreed(self.settings, f"federation {self.name!r}: settings")
        check_method(settings.method)
        return settings

    def to_toml(self) -> str:
        """The file's text."""
        return toml.dump(to_table(self))

    def differences(self, other: "Federation") -> list[str]:
        """Fields in which `other` differs, each as `field (ours X, theirs Y)`."""
        ours, theirs = _flat(self), _flat(other)
        return [
            f"{key} (ours {ours.get(key, 'missing')!r}, theirs {theirs.get(key, 'missing')!r})"
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
        ]


def check_method(method: Method) -> None:
    """Refuses a method for which organisations have nothing to exchange."""
    if not method.uses_shared:
        raise ConsilienceError(f"{method.title} exchanges no predictions. Use dynamic, static, every-K or naive.")


def default_quorum(members: int) -> int:
    """Two thirds of the members, and more than half.

    >>> [default_quorum(n) for n in (2, 3, 4, 5, 8)]
    [2, 2, 3, 3, 5]
    """
    return max(members // 2 + 1, round(2 * members / 3))


_ADVICE = "Get the federation file from the others, or write it with `consilience federation new`."


def read_federation(path: Path) -> Federation:
    """The federation in a file."""
    return from_table(Federation, toml.read(path, advice=_ADVICE, largest=LARGEST_FILE), str(path))


def parse_federation(text: str, where: str) -> Federation:
    """The federation in TOML text; an unknown, missing or mistyped field is an error."""
    return from_table(Federation, toml.parse(text, where), where)


def read_member(path: Path) -> Member:
    """A member's public part, from the file that `consilience keys` writes."""
    return from_table(Member, toml.read(path), str(path))


def fingerprint(array: Array) -> str:
    """SHA-256 of an array's type, shape and content, order included."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise ConsilienceError(f"the name {name!r} must be 1 to 64 letters, digits, dots, dashes or underscores.")


def _flat(federation: Federation) -> dict[str, Any]:
    values = flat(asdict(federation) | {"roster": {member.agent: asdict(member) for member in federation.roster}})
    return values | {"roster": ", ".join(federation.names)}
