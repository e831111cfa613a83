"""Reading a ledger: its lines, its head, and the fingerprints of rows in the first line."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.chained_log import Sign, Verify, is_line_signed, line_hash
from consilience.base.errors import ConsilienceError
from consilience.privacy.accountants import LedgerEntry
from consilience.privacy.row_fingerprints import Hashes, RowFingerprints

HEAD = ".head"
FORMAT = 2
PURPOSE = b"CNSB"
"""Prefix of all signed bytes of a ledger, which no other signed message of a site has."""


@dataclass(frozen=True)
class LedgerOwner:
    """The site that a ledger belongs to. It signs every line."""

    public: str
    """Its public key in hexadecimal."""
    sign: Sign
    is_signed: Callable[[str, bytes, bytes], bool]
    """Whether a signature of a message is by the holder of a public key."""
    other_ledgers: tuple[str, ...] = ()
    """Names of ledgers whose rows, as the site confirms, are unrelated."""


@dataclass(frozen=True)
class StoredLedger:
    """A ledger as read from its file, without an incomplete last line."""

    path: Path
    owner: str
    rows: RowFingerprints
    secret: str
    entries: list[tuple[str, LedgerEntry]]
    """(run, entry)."""
    last: str
    """Hash of the last line."""


def read_head(path: Path) -> bytes | None:
    """The head of a ledger; None if it is missing."""
    try:
        return path.with_suffix(HEAD).read_bytes()
    except FileNotFoundError:
        return None


def check_head(path: Path, head: bytes | None, lines: Sequence[bytes], is_signed: Verify | None) -> None:
    """Raises an error if lines and head differ. One more line is fine: the process was killed before the head."""
    if head is None:
        if len(lines) <= 1:
            return
        reason = f"its head {path.with_suffix(HEAD).name} is missing"
    else:
        number, last, signature = [*head.decode("ascii", "replace").strip().split(" "), "", ""][:3]
        count = int(number) if number.isdecimal() and len(number) == 12 else 0
        signed = is_signed is None or is_signed(_bytes(signature), PURPOSE + f"{number} {last}".encode())
        if signed and 1 <= count <= len(lines) <= count + 1 and line_hash(lines[count - 1]) == last:
            return
        reason = f"it had {count} lines and has {len(lines)}" if len(lines) < count else "its head says otherwise"
    raise ConsilienceError(
        f"the end of the privacy ledger {path} was cut, changed or damaged: {reason}. Restore it with its head from a "
        "backup; without them nothing may be spent."
    )


def read_ledger(path: Path, owner: LedgerOwner | None) -> StoredLedger:
    """A ledger's file, every line of it checked."""
    head = read_head(path)  # before the lines, as a writer writes lines first
    data = path.read_bytes()
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    before, entries = "", []
    about: dict[str, Any] = {"owner": "", "secret": ""}
    rows = RowFingerprints(_unpacked(""), _unpacked("").reshape(0, 0), frozenset())
    is_signed: Verify | None = None
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line, parse_constant=_refused)
            if content["before"] != before:
                raise ValueError("it does not follow from the line before it")
            if number == 1:
                about, rows = _about(content, path, owner), _rows_of(content)
                is_signed = partial(owner.is_signed, about["owner"]) if owner and about["owner"] else None
            else:
                whole = int(content["round"]), int(content["steps"])
                entry = LedgerEntry(whole[0], float(content["rate"]), float(content["noise"]), whole[1])
                if entry.problem:
                    raise ValueError(entry.problem)
                entries.append((str(content["run"]), entry))
            if is_signed is not None and not is_line_signed(line, PURPOSE, is_signed):
                raise ValueError("it is not signed with the key of its site")
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ConsilienceError(
                f"line {number} of the privacy ledger {path} was changed or damaged ({error}). Restore the file from a "
                "backup; without it nothing may be spent."
            ) from None
        before = line_hash(line)
    check_head(path, head, lines, is_signed)
    return StoredLedger(path, about["owner"], rows, about["secret"], entries, before)


def _about(content: dict[str, Any], path: Path, site: LedgerOwner | None) -> dict[str, str]:
    """Owner and secret's hash in the first line of a ledger."""
    if content["format"] != FORMAT:
        raise ConsilienceError(f"the privacy ledger {path} is of another version of consilience.")
    owner, secret = str(content["owner"]), str(content["secret"])
    named = path.stem.rpartition("-")[0]
    if named != owner[:8] or (site is not None and named == site.public[:8] and owner != site.public):
        raise ValueError("it is of another site than the name of the file says")
    return {"owner": owner, "secret": secret}


def packed_rows(rows: RowFingerprints) -> dict[str, Any]:
    """Fingerprints as fields of the first line of a ledger."""
    hashes = {key: b64encode(getattr(rows, key).astype("<u8").tobytes()).decode() for key in ("rows", "without_one")}
    return hashes | {"shapes": sorted(rows.shapes)}


def _rows_of(content: dict[str, Any]) -> RowFingerprints:
    rows, rest = _unpacked(content["rows"]), _unpacked(content["without_one"])
    if rest.size % max(1, rows.size):
        raise ValueError("its fingerprints are not as many as its rows")
    shapes = frozenset(str(shape) for shape in content["shapes"])
    return RowFingerprints(rows, rest.reshape(rows.size, rest.size // max(1, rows.size)), shapes)


def _unpacked(text: str) -> Hashes:
    return np.frombuffer(b64decode(text, validate=True), dtype="<u8").astype(np.uint64)


def _bytes(text: str) -> bytes:
    """Bytes from hexadecimal; empty if it is invalid."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _refused(constant: str) -> float:
    raise ValueError(f"invalid number {constant}")
