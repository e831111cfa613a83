"""The ledger that outlives runs: what was ever spent on a set of private rows, in an append-only file.

A folder holds one file for every set of rows. The first line of a file names its rows by short hashes, so that a run on
some of the same rows counts what was spent on them. Every line holds the hash of the line before it, and a small file
beside it (.head) says how many lines there are and what the last one's hash is: it is written after each line, before
anything that the line pays for can leave.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from consilience.errors import ConsilienceError
from consilience.places import sync_folder
from consilience.privacy.entry import Entry

Array = NDArray[Any]
VARIABLE = "CONSILIENCE_LEDGER"
"""Names the folder of ledgers in the environment."""
HEAD = ".head"


def ledger_folder() -> Path:
    """Where ledgers are, unless a site says otherwise: it survives run folders and installations."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "consilience" / "ledger"


def row_hashes(x: Any, y: Any) -> list[str]:
    """A short hash of every row (features and label), sorted: their order does not count."""
    if hasattr(x, "itertuples"):
        rows = [repr(tuple(row)).encode() for row in x.itertuples(index=False, name=None)]
    else:
        numbers = np.ascontiguousarray(np.asarray(x, dtype=np.float32).reshape(len(x), -1))
        rows = [row.tobytes() for row in numbers]
    labels = [str(label).encode() for label in np.asarray(y).tolist()]
    return sorted(
        hashlib.blake2b(row + b"|" + label, digest_size=8).hexdigest() for row, label in zip(rows, labels, strict=True)
    )


@final
class LedgerFile:
    """The ledger of a set of rows, locked against any other run on some of the same rows as long as it is open."""

    def __init__(self, folder: Path, rows: Sequence[str]) -> None:
        self.fingerprint = hashlib.sha256("".join(rows).encode()).hexdigest()[:32]
        self.path = folder / f"{self.fingerprint}.jsonl"
        self._others: list[Entry] = []
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            gate = _locked(folder / ".lock", wait=True)
            try:
                self._open(folder, rows)
            finally:
                os.close(gate)
        except OSError as error:
            raise ConsilienceError(
                f"the privacy ledger in {folder} cannot be used: {error.strerror}. Without it nothing may be spent."
            ) from error

    def _open(self, folder: Path, rows: Sequence[str]) -> None:
        known = set(rows)
        for path in sorted(folder.glob("*.jsonl")):
            first, lines = _read(path)
            if path == self.path or known.isdisjoint(first["rows"]):
                continue
            os.close(_locked(path, wait=False))  # nobody else may be spending on these rows now
            self._others += [entry for _, entry in lines]
        fresh = not self.path.exists() or b"\n" not in self.path.read_bytes()  # or killed within the first line
        if fresh:
            _check_head(self.path, _head(self.path), {}, [])
        self._file = _locked(self.path, wait=False)
        self._lines: list[tuple[str, Entry]] = []
        self._last, self._count = "", 0
        if fresh:
            os.ftruncate(self._file, 0)
            self._append({"data": self.fingerprint, "head": True, "rows": list(rows)})
        else:
            _, self._lines = _read(self.path)
            data = self.path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            self._last, self._count = _hash(whole.splitlines()[-1]), 1 + len(self._lines)
            if len(whole) < len(data):  # a kill within a line, before its round could leave
                os.ftruncate(self._file, len(whole))
                os.fsync(self._file)
            self._seal()
        sync_folder(folder)

    @property
    def entries(self) -> list[Entry]:
        """All that was spent on these rows, or on sets that hold some of them."""
        return [*self._others, *(entry for _, entry in self._lines)]

    def before(self, run: str) -> list[Entry]:
        """What other runs spent."""
        return [*self._others, *(entry for other, entry in self._lines if other != run)]

    def attempts(self, run: str, number: int) -> int:
        """How often this run has entered this round: a round that is trained again draws other noise."""
        return sum(other == run and entry.round == number for other, entry in self._lines)

    def add(self, run: str, entry: Entry) -> None:
        """Appends an entry. It is on the disk when this returns."""
        self._append({"run": run, **entry._asdict()})
        self._lines.append((run, entry))

    def check_holds(self, run: str, entries: Sequence[Entry]) -> None:
        """Refuses a ledger that lacks what a checkpoint of the run says was spent."""
        missing = Counter(entries) - Counter(entry for other, entry in self._lines if other == run)
        if missing:
            raise ConsilienceError(
                f"the privacy ledger {self.path} lacks {missing.total()} rounds that the run has spent (first: round "
                f"{min(one.round for one in missing)}). Restore it from a backup; without it nothing may be spent."
            )

    def close(self) -> None:
        """Lets other runs use it."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _append(self, content: dict[str, Any]) -> None:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"time": time, **content, "before": self._last}).encode()
        data = line + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)
        self._last, self._count = _hash(line), self._count + 1
        self._seal()

    def _seal(self) -> None:
        """Writes the head over the one before it: 46 bytes, at once."""
        head = os.open(self.path.with_suffix(HEAD), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(head, f"{self._count:012d} {self._last}\n".encode())
            os.fsync(head)
        finally:
            os.close(head)


def _head(path: Path) -> bytes | None:
    """What the head of a ledger says; None if there is none."""
    try:
        return path.with_suffix(HEAD).read_bytes()
    except FileNotFoundError:
        return None


def _check_head(path: Path, head: bytes | None, first: dict[str, Any], lines: Sequence[bytes]) -> None:
    """Refuses a ledger whose end is not as its head says. One more line is fine: a kill came before the next head.

    Ledgers of earlier versions have no head until they are used again.
    """
    if head is None:
        if not first.get("head") or len(lines) <= 1:
            return
        reason = f"its head {path.with_suffix(HEAD).name} is missing"
    else:
        number, _, last = head.decode("ascii", "replace").strip().partition(" ")
        count = int(number) if number.isdecimal() and len(number) == 12 else 0
        if 1 <= count <= len(lines) <= count + 1 and _hash(lines[count - 1]) == last:
            return
        reason = f"it had {count} lines and has {len(lines)}" if len(lines) < count else "its head says otherwise"
    raise ConsilienceError(
        f"the end of the privacy ledger {path} was cut, changed or damaged: {reason}. Restore it with its head from a "
        "backup; without them nothing may be spent."
    )


def _read(path: Path) -> tuple[dict[str, Any], list[tuple[str, Entry]]]:
    """The first line, and the entries with the runs that made them; a line that was cut off by a kill is left out."""
    head = _head(path)  # before the lines: whoever writes now has written the lines first
    data = path.read_bytes()
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    before, found = "", []
    first: dict[str, Any] = {"rows": []}
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line)
            if content["before"] != before:
                raise ValueError("it does not follow from the line before it")
            if number == 1:
                first = {"rows": [str(row) for row in content["rows"]], "head": content.get("head") is True}
            else:
                whole = int(content["round"]), int(content["steps"])
                entry = Entry(whole[0], float(content["rate"]), float(content["noise"]), whole[1])
                found.append((str(content["run"]), entry))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ConsilienceError(
                f"line {number} of the privacy ledger {path} was changed or damaged ({error}). Restore the file from a "
                "backup; without it nothing may be spent."
            ) from None
        before = _hash(line)
    _check_head(path, head, first, lines)
    return first, found


def _locked(path: Path, wait: bool) -> int:
    """The file, open for appending and locked until it is closed or the process ends."""
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except ImportError:  # no such locks on this system
        pass
    except BlockingIOError:
        os.close(handle)
        raise ConsilienceError(
            f"another run is spending on some of the same private rows ({path.name}). Wait until it has ended."
        ) from None
    return handle


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]
