"""Reads what comes from outside: frames, receipts, statuses, requests, federation files; question.py reads samples.

Sizes are checked before anything is read, every field against a strict schema, and any fault is an InvalidInput.
Nothing from outside may end the process: it is refused, logged and counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import from_table
from consilience.federation.peers.change import Change
from consilience.federation.peers.federation import FIELD, FIELDS, MOST_FIELDS, Federation, Member, field_record
from consilience.federation.peers.frame import (
    HEADER,
    NO_RECEIPT,
    NONCE,
    RECEIPT,
    STATUS,
    VERSION,
    Format,
    Frame,
    Receipt,
    Status,
    hash_of,
)
from consilience.tasks import TASKS
from consilience.tasks.protocol import checked_predictions

LARGEST_FILE, LARGEST_MEMBER = 1_000_000, 64_000
"""Bytes of a federation file, and of a member file, that are still read."""
LARGEST_FIELDS = len(FIELDS) + MOST_FIELDS * FIELD.size
"""Bytes of the fields of a peer's federation file."""
TOPICS = ("status", "federation", "finished", "round", "receipts")
"""What a site can be asked for: its status, the fields of its federation file, whether it knows that the asker has
finished, its frame of a round, receipts of what it heard in one."""
P = ParamSpec("P")
T = TypeVar("T")


class InvalidInput(ConsilienceError):
    """Why something from outside is not accepted."""


class VersionError(InvalidInput):
    """A peer speaks another version of the protocol."""

    def __init__(self, what: str, theirs: int, ours: int) -> None:
        who = "this site must upgrade" if theirs > ours else "it must upgrade"
        super().__init__(f"it has version {theirs} of {what}, this site version {ours}: {who} consilience")


def printable(text: object, most: int = 300) -> str:
    """Text from outside, safe to show and log: one line, no control characters, of bounded length.

    >>> printable("two\\nlines and \\x1b[31mred")
    'two\\\\nlines and \\\\x1b[31mred'
    """
    given = str(text)
    plain = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in given[:most])
    return plain if len(given) <= most else f"{plain} ... ({len(given)} characters)"


def strict(parse: Callable[P, T]) -> Callable[P, T]:
    """The parser, whose only error is InvalidInput."""

    @wraps(parse)
    def guarded(*arguments: P.args, **more: P.kwargs) -> T:
        try:
            return parse(*arguments, **more)
        except InvalidInput:
            raise
        except Exception as error:
            kind = "" if isinstance(error, ConsilienceError) else f"{type(error).__name__}: "
            raise InvalidInput(kind + printable(error)) from None

    return guarded


@strict
def frame_from(format: Format, data: bytes | memoryview, agent: int, number: int | None = None) -> Frame:
    """The frame of `agent` in round `number` (None: whatever it says)."""
    if len(data) != format.length:
        raise InvalidInput(f"{len(data)} bytes instead of {format.length}")
    magic, version, form, samples, classes, round_, sequence, run, sender = HEADER.unpack_from(data)
    wanted = {
        "magic": (magic, b"CNSL"),
        "version": (version, VERSION),
        "form": (form, format.form),
        "shape": ((samples, classes), (format.samples, format.classes)),
        "run": (run, format.run),
        "agent": (sender, agent),
        "round": (round_, round_ if number is None else number),
    }
    for what, (is_, should) in wanted.items():
        if is_ != should:
            numbers = f" ({is_} instead of {should})" if what in ("version", "shape", "round", "agent") else ""
            raise InvalidInput(f"wrong {what}{numbers}")
    view = memoryview(data)
    receipts, rest = view[HEADER.size :][: format.receipts], view[HEADER.size + format.receipts :]
    payload, signature = rest[: format.payload], bytes(rest[format.payload :])
    receipt = Receipt(agent, round_, sequence, hash_of(receipts), hash_of(payload), signature)
    if not format.is_genuine(receipt):
        raise InvalidInput(f"not signed by {format.names[agent]}")
    f = format.wire.decode(payload, format.samples, format.classes)
    f = checked_predictions(format.names[agent], f, format.samples, format.classes, TASKS.find(format.task))
    return Frame(receipt, receipts_from(format, bytes(receipts)), f)


@strict
def receipts_from(format: Format, data: bytes) -> tuple[Receipt, ...]:
    """Receipts, one for each agent of the roster or none. Their signatures are not checked yet."""
    if len(data) != format.receipts:
        raise InvalidInput(f"receipts of {len(data)} bytes instead of {format.receipts}")
    packed = [data[start : start + RECEIPT.size] for start in range(0, len(data), RECEIPT.size)]
    return tuple(Receipt(agent, *RECEIPT.unpack(item)) for agent, item in enumerate(packed) if item != NO_RECEIPT)


def stored_receipts(number: int, packed: bytes) -> bytes:
    """The receipts of what was heard in a round, as a site keeps them on its disk: with a checksum."""
    content = number.to_bytes(4, "little") + packed
    return content + hash_of(content)


@strict
def stored_receipts_from(format: Format, data: bytes) -> tuple[int, tuple[Receipt, ...]]:
    """The round and the receipts in what `stored_receipts` made."""
    if hash_of(data[:-32]) != data[-32:]:
        raise InvalidInput("it is damaged, or of an older version: its checksum is wrong")
    return int.from_bytes(data[:4], "little"), receipts_from(format, data[4:-32])


@strict
def status_from(format: Format, data: bytes, run: bytes, number: int, nonce: bytes) -> Status:
    """The status in a message of this run, or another one, and round, in answer to the question with this nonce."""
    shared, clock, answered = STATUS.unpack(data)
    if answered != nonce:
        raise InvalidInput("an old status")
    if not abs(clock) < 1e12:
        raise InvalidInput("invalid clock value")
    if run == format.run and number > format.rounds:
        raise InvalidInput(f"a status of round {number}; the last is {format.rounds}")
    return Status(run, run == format.run, shared == format.shared, number, clock)


@dataclass(frozen=True)
class QuestionRecord:
    """What a peer asks."""

    asker: str
    topic: str
    """One of TOPICS."""
    round: int
    """Of the topics round and receipts."""
    nonce: bytes


@strict
def question_from(asker: str, number: int, data: bytes) -> QuestionRecord:
    """The question in a message of a peer: a nonce and a topic."""
    nonce, topic = data[:NONCE], data[NONCE:].decode("ascii")
    if len(nonce) < NONCE or topic not in TOPICS:
        raise InvalidInput(f"an unknown question: {printable(topic, 100)}")
    return QuestionRecord(asker, topic, number, nonce)


@strict
def table_from(kind: type[T], data: bytes, where: str, largest: int = LARGEST_FILE) -> T:
    """The federation, member or change in the text of a file; an unknown, missing or mistyped field is an error."""
    if len(data) > largest:
        raise InvalidInput(f"{where} is too large (at most {largest} bytes are read)")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where} is not valid TOML: it is no text ({error})") from None
    return from_table(kind, toml.parse(text, where), where)


@strict
def differences_from(federation: Federation, data: bytes) -> str:
    """In which fields a peer's federation file differs from ours, in words. Hashes are compared, nothing is parsed."""
    records = data[len(FIELDS) :]
    if not data.startswith(FIELDS) or len(data) > LARGEST_FIELDS or len(records) % FIELD.size:
        raise InvalidInput("no list of its fields; is its version of consilience another one?")
    theirs = {name: (value, text) for name, value, text in FIELD.iter_unpack(records)}
    differing = []
    for name, ours in federation.fields.items():
        name_hash, value_hash, _ = FIELD.unpack(field_record(name, ours))
        value, text = theirs.pop(name_hash, (b"", b"missing"))
        if value != value_hash:
            shown = text.rstrip(b"\0").decode(errors="replace")
            differing.append(f"{name} (ours {printable(repr(ours))}, theirs {printable(shown)})")
    if theirs:
        differing.append(f"{len(theirs)} fields that ours does not have")
    return printable("; ".join(differing), 1000) or "nothing that it shows"


def read_change(path: Path) -> Change:
    """A change of the roster in a file. Its signatures are not checked yet."""
    return table_from(Change, _bytes(path, "`consilience federation change` writes one."), str(path))


def read_federation(path: Path) -> Federation:
    """The federation in a file."""
    advice = "Get the federation file from the others, or write it with `consilience federation new`."
    try:
        return table_from(Federation, _bytes(path, advice), str(path))
    except InvalidInput as error:
        if "unknown setting" in str(error) or "is missing. The entries" in str(error):
            raise InvalidInput(f"{error} If a site with another version of consilience wrote it, upgrade.") from None
        raise


def read_member(path: Path) -> Member:
    """A member's public part, from the file that `consilience site init` writes."""
    return table_from(Member, _bytes(path, "`consilience site init` writes one."), str(path), LARGEST_MEMBER)


def _bytes(path: Path, advice: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise ConsilienceError(f"{path} cannot be read ({error.strerror}). {advice}") from error
