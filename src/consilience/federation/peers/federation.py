"""The federation file: what every site holds in the same form. Its hash is the run's identity."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from consilience import toml
from consilience.errors import ConsilienceError
from consilience.federation.peers.keys import is_public_key
from consilience.options import flat
from consilience.settings.settings import Settings, settings_agreed
from consilience.tasks.protocol import Array

LARGEST_FILE = 1_000_000
"""Bytes of a federation file that is still read."""


@dataclass(frozen=True)
class Member:
    """One organisation's public part: what its peers need to know of it."""

    agent: str
    address: str
    """host:port where its peers reach it."""
    certificate: str
    """The common name in its TLS certificate."""
    key: str
    """Its Ed25519 public key in hexadecimal."""

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True)
class Federation:
    """Who takes part, on which shared data, with which method."""

    name: str
    id: str
    """A random number, so that no two federations are the same, and nothing signed in one is valid in another."""
    classes: tuple[str, ...]
    shared_samples: int
    shared: str
    """Fingerprint of the shared data, order included."""
    deadline: float
    """Seconds after which a round closes without those who are still missing."""
    quorum: int
    """Agents, this one included, without whom no round closes."""
    settings: dict[str, Any]
    """The tables [method], [training] and [run] of the settings, without what is each machine's own."""
    roster: tuple[Member, ...]
    """Its order is the order of rows and columns of every trust matrix."""

    def __post_init__(self) -> None:
        problem = ""
        names = [member.agent for member in self.roster]
        _check_name(self.name)
        for member in self.roster:
            check_member(member)
        for what, values in (
            ("agent", names),
            ("certificate name", [member.certificate for member in self.roster]),
            ("key", [member.key for member in self.roster]),
        ):
            if len(set(values)) < len(values):
                problem = f"two members have the same {what}"
        if len(names) < 2:
            problem = "a federation needs at least two members"
        elif not len(names) / 2 < self.quorum <= len(names):
            problem = (
                f"the quorum is {self.quorum} of {len(names)}; it must be more than half, "
                "so that two separated parts never both go on"
            )
        elif self.deadline <= 0 or self.shared_samples < 1 or len(self.classes) < 2:
            problem = "deadline and shared_samples must be above 0, and there must be at least two classes"
        if problem:
            raise ConsilienceError(f"federation {self.name!r}: {problem}.")

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

    def agreed(self) -> Settings:
        """The settings on which all agreed, with the defaults for what is each machine's own."""
        return settings_agreed(self.settings, f"federation {self.name!r}, settings")

    def to_toml(self) -> str:
        """The file's text."""
        return toml.dump(asdict(self) | {"roster": [asdict(member) for member in self.roster]})

    def differences(self, other: "Federation") -> list[str]:
        """Fields in which `other` differs, each as `field (ours X, theirs Y)`."""
        ours, theirs = _flat(self), _flat(other)
        return [
            f"{key} (ours {ours.get(key, 'missing')!r}, theirs {theirs.get(key, 'missing')!r})"
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
        ]


def check_member(member: Member) -> None:
    """An error if a member's name, address or key cannot be one."""
    _check_name(member.agent)
    if not re.fullmatch(r".+:\d{1,5}", member.address):
        raise ConsilienceError(f"the address {member.address!r} of {member.agent} is not host:port.")
    if not is_public_key(member.key):
        raise ConsilienceError(f"the key of {member.agent} is no Ed25519 public key in hexadecimal.")


def default_quorum(members: int) -> int:
    """Two thirds of the members, and more than half.

    >>> [default_quorum(n) for n in (2, 3, 4, 5, 8)]
    [2, 2, 3, 3, 5]
    """
    return max(members // 2 + 1, round(2 * members / 3))


def read_federation(path: Path) -> Federation:
    """The federation in a file."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ConsilienceError(f"{path} is too large for a federation file.")
        return parse_federation(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConsilienceError(f"the federation file {path} cannot be read: {error}.") from error


def parse_federation(text: str, where: str) -> Federation:
    """The federation in TOML text; an unknown, missing or mistyped field is an error."""
    values = _checked(toml.parse(text, where), _TYPES, where)
    members = [_checked(entry, _MEMBER, f"{where}, roster") for entry in values.pop("roster")]
    values["classes"] = tuple(str(name) for name in values["classes"])
    values["deadline"] = float(values["deadline"])
    return Federation(**values, roster=tuple(Member(**entry) for entry in members))


def parse_member(text: str, where: str) -> Member:
    """A member's public part, from the file that `consilience keys` writes."""
    return Member(**_checked(toml.parse(text, where), _MEMBER, where))


def fingerprint(array: Array) -> str:
    """SHA-256 of an array's type, shape and content, order included."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


_MEMBER: dict[str, Any] = dict.fromkeys(("agent", "address", "certificate", "key"), str)
_TYPES: dict[str, Any] = {
    "name": str,
    "id": str,
    "classes": list,
    "shared_samples": int,
    "shared": str,
    "deadline": (int, float),
    "quorum": int,
    "settings": dict,
    "roster": list,
}


def _checked(values: Any, types: dict[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ConsilienceError(f"{where}: a table is needed, with {', '.join(types)}.")
    missing, unknown = types.keys() - values.keys(), values.keys() - types.keys()
    if missing or unknown:
        what = f"{sorted(missing)[0]!r} is missing" if missing else f"unknown field {sorted(unknown)[0]!r}"
        raise ConsilienceError(f"{where}: {what}. The fields are {', '.join(types)}.")
    for key, kind in types.items():
        if not isinstance(values[key], kind) or isinstance(values[key], bool):
            raise ConsilienceError(f"{where}: {key} is {values[key]!r}, which is not of the right type.")
    return dict(values)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name):
        raise ConsilienceError(f"the name {name!r} must be 1 to 64 letters, digits, dots, dashes or underscores.")


def _flat(federation: Federation) -> dict[str, Any]:
    values = flat(asdict(federation) | {"roster": {member.agent: asdict(member) for member in federation.roster}})
    return values | {"roster": ", ".join(federation.names)}
