"""The federation file, of which every site has an equal copy. Its hash is the run's identity."""

import hashlib
import json
import re
import struct
from dataclasses import asdict, dataclass
from datetime import date
from functools import cached_property
from typing import Any

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, flat, option, to_table
from consilience.base.rows import fingerprint as fingerprint
from consilience.federation.peers.keys import is_encryption_key, is_public_key
from consilience.methods.listening.sparse import Sparse
from consilience.methods.protocol import Method
from consilience.settings.settings import Settings, settings_agreed

LARGEST_PREDICTIONS = 2**29
"""Bytes of one agent's predictions in a round, at most."""
MOST_MEMBERS, MOST_CLASSES = 1000, 65535
LONGEST = 30 * 86400.0
"""Seconds: no deadline is longer."""
FIELDS = b"CNSF"
"""How the list of a federation file's fields begins, which sites with different files send each other."""
FIELD = struct.Struct("<8s8s48s")
"""hash of a field's name, hash of its value, the first bytes of the value as text."""
MOST_FIELDS = 5000


@dataclass(frozen=True)
class Member(Options):
    """What peers need to know of one organisation."""

    agent: str = option(meaning="the name of its agent")
    key: str = option(meaning="its Ed25519 public key in hexadecimal: it signs with it")
    encryption: str = option(meaning="its X25519 public key in hexadecimal: what it alone may read is sealed with it")
    address: str = option("", "host:port where its peers reach it; empty if it only dials out, or uses a folder")
    samples: int = option(
        0, "private samples that it declares, for methods in which they are weights; 0 = none", at_least=0, below=1e12
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.agent)
        if self.address:
            check_address(self.address, f"the address of {self.agent}")
        if not is_public_key(self.key):
            raise ConsilienceError(
                f"the key of {self.agent} is no Ed25519 public key in 64 lower-case hexadecimal digits."
            )
        if not is_encryption_key(self.encryption):
            raise ConsilienceError(
                f"the encryption key of {self.agent} is no X25519 public key in 64 lower-case hexadecimal digits."
            )

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True)
class Federation(Options):
    """Who takes part, on which shared data, with which method."""

    name: str = option(meaning="the federation's name")
    id: str = option(meaning="random, so that nothing signed in one federation is valid in another")
    classes: tuple[str, ...] = option(meaning="names of the classes, in order")
    shared_samples: int = option(meaning="how many samples the shared data have", at_least=1, below=1e9)
    shared: str = option(meaning="fingerprint of the shared data, order included")
    deadline: float = option(
        meaning="seconds after which a round closes without those who are still missing", above=0, below=LONGEST
    )
    quorum: int = option(meaning="agents, this one included, that a round needs to close")
    settings: dict[str, Any] = option(meaning="the tables of settings on which all agree")
    roster: tuple[Member, ...] = option(meaning="members, in the order of rows and columns of every trust matrix")
    on_suspicion: str = option(
        "warn",
        "a peer that repeats itself, another or us: warn | exclude (from that round)",
        one_of=("warn", "exclude"),
    )
    task: str = option(
        "classification",
        "what is learned: classification | regression | multilabel; `classes` are then names of values or labels",
        one_of=("classification", "regression", "multilabel"),
    )
    epoch: int = option(
        1,
        "which run with this file it is; a new run needs a new number, so that nothing old is valid in it",
        at_least=1,
        below=2**31,
    )
    start_wait: float = option(
        3600.0,
        "seconds in which all members are waited for before round 1; then a quorum begins",
        above=0,
        below=LONGEST,
    )
    crossed: int = option(
        0, "rows that every site crosses from the shared data, the same everywhere", at_least=0, below=1e6
    )
    backbone: str = option(
        "",
        "fingerprint of the backbone of all members, among whose features rows are crossed",
        pattern=r"([0-9a-f]{64})?",
    )

    version: int = option(1, "of the file; it rises with every change that a quorum signs", at_least=1, below=2**31)
    expires: str = option("", "the last day on which a run begins or resumes: YYYY-MM-DD in UTC; empty for ever")
    signatures: dict[str, Any] = option({}, "of members, by name; they are for all of the file but the epoch")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.name)
        problem = self._problem()
        if problem:
            raise ConsilienceError(f"federation {self.name!r}: {problem}.")

    def _problem(self) -> str:
        """What is wrong with the members, the quorum or the classes; empty if nothing is."""
        members = len(self.roster)
        for what, values in (
            ("agent", [member.agent.casefold() for member in self.roster]),
            ("key", [member.key for member in self.roster]),
            ("encryption key", [member.encryption for member in self.roster]),
            ("address", [member.address.casefold() for member in self.roster if member.address]),
            ("class", self.classes),
        ):
            if len(set(values)) < len(values):
                return f"two members have the same {what}" if what != "class" else "two classes have the same name"
        if not 2 <= members <= MOST_MEMBERS:
            return f"it has {members} members; 2 to {MOST_MEMBERS} are possible"
        least = default_quorum(members)
        if not least <= self.quorum <= members:
            return (
                f"the quorum is {self.quorum} of {members}; it must be {least} to {members}, more than half of all "
                f"that are honest and {self.hostile} that may be hostile, so that two parts never both go on"
            )
        if not re.fullmatch(r"[0-9A-Za-z]{1,64}", self.id) or not re.fullmatch(r"[0-9a-f]{64}", self.shared):
            return "`id` must be 1 to 64 letters and digits, and `shared` a fingerprint of 64 hexadecimal digits"
        if not (2 if self.task == "classification" else 1) <= len(self.classes) <= MOST_CLASSES:
            return f"there must be at least two classes, and at most {MOST_CLASSES}"
        if not all(0 < len(name) <= 200 and name.isprintable() for name in self.classes):
            return "a class must be named by 1 to 200 printable characters"
        if 4 * self.samples * len(self.classes) > LARGEST_PREDICTIONS:
            return f"predictions would have more than {LARGEST_PREDICTIONS} bytes; share fewer samples"
        if self.expires and not _is_date(self.expires):
            return f"`expires` is {self.expires!r}, which is no day: write it as 2027-12-31"
        if len(self.signatures) > members or not all(isinstance(text, str) for text in self.signatures.values()):
            return "the signatures must be one word for each member that has signed"
        return "" if _is_shallow(self.settings) else "the settings are no tables of plain values"

    @property
    def samples(self) -> int:
        """How many rows an agent predicts in a round: the shared ones and those crossed from them."""
        return self.shared_samples + self.crossed

    @property
    def hostile(self) -> int:
        """How many members may be hostile: fewer than a third."""
        return (len(self.roster) - 1) // 3

    @property
    def enough_claims(self) -> int:
        """Peers that must claim to be in a later round before a site goes there; one of them is honest.

        It is at least two: even among two or three members, all of which are assumed to be honest, one liar misleads
        nobody.
        """
        return max(2, self.hostile + 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Agents in the order of the roster."""
        return tuple(member.agent for member in self.roster)

    def member(self, agent: str) -> Member:
        """The entry of `agent`."""
        if agent in self.names:
            return self.roster[self.names.index(agent)]
        raise ConsilienceError(f"agent {agent!r} is not in federation {self.name!r}. It has: {', '.join(self.names)}.")

    def identity(self) -> bytes:
        """SHA-256 over every field but the signatures; those that a file may leave out count where they are set."""
        optional = {"crossed": 0, "backbone": "", "version": 1, "expires": "", "signatures": self.signatures}
        facts = {name: value for name, value in asdict(self).items() if value != optional.get(name, ...)}
        text = json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).digest()

    @cached_property
    def agreed(self) -> Settings:
        """The agreed settings, with defaults for what each machine decides itself.

        They name a method and a trust rule that this site has; they cannot load a plugin. The settings of a peer's file
        are never read, only compared.
        """
        settings = settings_agreed(self.settings, f"federation {self.name!r}: settings")
        check_method(settings.method)
        return settings

    def to_toml(self) -> str:
        """The file's text."""
        return toml.dump(to_table(self))

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Every value by its dotted name."""
        roster = {member.agent: asdict(member) for member in self.roster}
        return flat(asdict(self) | {"roster": roster, "signatures": {}}) | {"roster": ", ".join(self.names)}

    @cached_property
    def packed_fields(self) -> bytes:
        """The fields in the form for peers with another file, which compare hashes and parse nothing."""
        records = [field_record(name, value) for name, value in self.fields.items()]
        return FIELDS + b"".join(records[:MOST_FIELDS])

    def differences(self, other: "Federation") -> list[str]:
        """Fields in which `other` differs, each as `field (ours X, theirs Y)`."""
        ours, theirs = self.fields, other.fields
        return [
            f"{key} (ours {ours.get(key, 'missing')!r}, theirs {theirs.get(key, 'missing')!r})"
            for key in sorted(ours.keys() | theirs.keys())
            if ours.get(key) != theirs.get(key)
        ]


def field_record(name: str, value: Any) -> bytes:
    """One field of a federation file in its wire form."""
    text = repr(value)
    hashes = (hashlib.sha256(content.encode()).digest()[:8] for content in (name, text))
    return FIELD.pack(*hashes, text.encode()[:48])


def check_method(method: Method) -> None:
    """Refuses a method that does not exchange predictions with everyone."""
    if not method.uses_shared:
        raise ConsilienceError(f"{method.title} exchanges no predictions. Use consensus, paper, static or naive.")
    if isinstance(getattr(method, "listening", None), Sparse):
        raise ConsilienceError("between sites everyone hears everyone. Set method.listening=everyone.")


def default_quorum(members: int) -> int:
    """(N + f) // 2 + 1, where f, the members that may be hostile, is the largest number below N / 3.

    Two quorums of N members have more than f in common, so at least one that is honest; and N - f, all that are
    honest, are a quorum.

    >>> [default_quorum(n) for n in (2, 3, 4, 5, 6, 7, 8, 10)]
    [2, 2, 3, 4, 4, 5, 6, 7]
    """
    return (members + (members - 1) // 3) // 2 + 1


def check_name(name: str) -> None:
    """Refuses an invalid name of an agent or a federation: it becomes a part of keys and of file names."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise ConsilienceError(
            f"the name {name!r} must be 1 to 64 letters, digits, dots, dashes or underscores, and begin with a letter "
            "or digit."
        )


def check_address(address: str, what: str) -> None:
    """Refuses an address that is not a host and a port, and nothing else."""
    match = re.fullmatch(r"([A-Za-z0-9._-]{1,253}|\[[A-Fa-f0-9:.]{2,45}\]):([0-9]{1,5})", address, re.ASCII)
    if not match or not 0 < int(match[2]) < 65536:
        raise ConsilienceError(f"{what}, {address!r}, is not host:port with a port from 1 to 65535.")


def _is_date(text: str) -> bool:
    """Whether this is a day in the form 2027-12-31."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_shallow(value: Any, depth: int = 0) -> bool:
    """Whether these are tables, at most five deep, of short words, numbers and lists of them."""
    if isinstance(value, dict):
        return depth < 5 and len(value) < 200 and all(_is_shallow(item, depth + 1) for item in value.values())
    if isinstance(value, list | tuple):
        return depth < 5 and len(value) < 1000 and all(_is_shallow(item, 5) for item in value)
    if isinstance(value, int):
        return abs(value) < 2**63
    return isinstance(value, float) or (isinstance(value, str) and len(value) < 1000)
