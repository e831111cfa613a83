"""The ledger across runs: all privacy loss ever spent on a set of private rows, in an append-only file.

A folder holds one file for every set of rows of a site. The first line of a file has fingerprints of its rows
(`row_fingerprints`), so that a run on some of them, or on the same rows in another notation, counts what was spent on
them. Every line holds the hash of the previous line and, if the ledger has an owner, its signature. A small file
(.head) holds the number of lines and the last line's hash: it is written after each line, before any result of the
round can leave the site. Hashes of rows are keyed with a secret that stays in the folder.
"""

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from consilience.base.chained_log import chained_line, line_hash
from consilience.base.errors import ConsilienceError
from consilience.base.files import sync_folder, write_atomically
from consilience.privacy.accountants import LedgerEntry
from consilience.privacy.ledger_files import (
    FORMAT,
    HEAD,
    PURPOSE,
    LedgerOwner,
    check_head,
    packed_rows,
    read_head,
    read_ledger,
)
from consilience.privacy.row_fingerprints import OTHER, SAME, relation, row_fingerprints

VARIABLE = "CONSILIENCE_LEDGER"
"""Environment variable with the folder of ledgers."""
SECRET = ".secret"


def ledger_folder() -> Path:
    """The default folder of ledgers, which does not depend on run folders and installations."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "consilience" / "ledger"


@final
class LedgerFile:
    """The ledger of a set of rows, locked against any other run on some of the same rows as long as it is open.

    Args:
        folder: Folder of ledgers.
        x: Private rows without labels: a table, or an array.
        owner: The site; without one, only the chain of hashes protects the ledger.
    """

    def __init__(self, folder: Path, x: Any, owner: LedgerOwner | None = None) -> None:
        self._owner = owner
        self._file = -1
        self._others: list[LedgerEntry] = []
        self.similar: list[str] = []
        """Names of ledgers that seem to have the same rows in another notation. What was spent there counts."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            gate = _locked(folder / ".lock", wait=True)
            try:
                secret = _secret(folder)
                self._rows = row_fingerprints(x, secret)
                prefix = f"{owner.public[:8]}-" if owner else ""
                self.path = folder / f"{prefix}{self._rows.name(secret)}.jsonl"
                self._open(folder, _check_of(secret))
            except BaseException:
                self.close()
                raise
            finally:
                os.close(gate)
        except OSError as error:
            raise ConsilienceError(
                f"the privacy ledger in {folder} cannot be used: {error.strerror}. Without it nothing may be spent."
            ) from error

    @property
    def name(self) -> str:
        """The name of the file, without its ending."""
        return self.path.stem

    def _open(self, folder: Path, secret: str) -> None:
        fresh = not self.path.exists() or b"\n" not in self.path.read_bytes()  # or killed during the first line
        if fresh:
            check_head(self.path, read_head(self.path), [], None)
        unknown = self._count_other_ledgers(folder, secret)
        if fresh and unknown:
            raise ConsilienceError(
                f"these private rows have no ledger, and this site has spent on others: {', '.join(unknown)} in "
                f"{folder}. If they are the same rows, written otherwise, write them as before, so that what was spent "
                f"on them counts. If they are not, say so in site.toml: other_ledgers = {json.dumps(unknown)}"
            )
        self._file = _locked(self.path, wait=False)
        self._lines: list[tuple[str, LedgerEntry]] = []
        self._last, self._count = "", 0
        if fresh:
            os.ftruncate(self._file, 0)
            about = {"format": FORMAT, "owner": self._owner.public if self._owner else "", "secret": secret}
            self._append(about | packed_rows(self._rows))
        else:
            ledger = read_ledger(self.path, self._owner)
            if ledger.secret != secret:
                raise _other_secret(self.path)
            self._lines, self._last, self._count = ledger.entries, ledger.last, 1 + len(ledger.entries)
            data = self.path.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):  # killed during a line, before the round's result could leave
                os.ftruncate(self._file, whole)
                os.fsync(self._file)
            self._seal()
        sync_folder(folder)

    def _count_other_ledgers(self, folder: Path, secret: str) -> list[str]:
        """Adds what other ledgers spent on these rows; returns the names of this site's ledgers on unrelated rows."""
        unknown, confirmed = [], self._owner.other_ledgers if self._owner else ()
        for path in sorted(folder.glob("*.jsonl")):
            if path == self.path:
                continue
            ledger = read_ledger(path, self._owner)
            if not ledger.last:  # killed during the first line
                continue
            if ledger.secret != secret:
                raise _other_secret(path)
            how = relation(self._rows, ledger.rows)
            if how != SAME and path.stem in confirmed:
                continue
            if how == OTHER:
                unknown += [path.stem] * (self._owner is not None and ledger.owner == self._owner.public)
                continue
            os.close(_locked(path, wait=False))  # no other run may spend on these rows now
            self._others += [entry for _, entry in ledger.entries]
            self.similar += [path.stem] * (how != SAME)
        return unknown

    @property
    def entries(self) -> list[LedgerEntry]:
        """All entries on these rows, or on sets that share rows with them."""
        return [*self._others, *(entry for _, entry in self._lines)]

    def before(self, run: str) -> list[LedgerEntry]:
        """Entries of other runs."""
        return [*self._others, *(entry for other, entry in self._lines if other != run)]

    def attempts(self, run: str, number: int) -> int:
        """Number of entries of this round by this run: a repeated round draws new noise."""
        return sum(other == run and entry.round == number for other, entry in self._lines)

    def add(self, run: str, entry: LedgerEntry) -> None:
        """Appends an entry. It is on the disk when this returns."""
        self._append({"run": run, **entry._asdict()})
        self._lines.append((run, entry))

    def check_holds(self, run: str, entries: Sequence[LedgerEntry]) -> None:
        """Raises an error if entries of the run's checkpoint are missing in the ledger."""
        missing = Counter(entries) - Counter(entry for other, entry in self._lines if other == run)
        if missing:
            raise ConsilienceError(
                f"the privacy ledger {self.path} lacks rounds that the run has spent ({missing.total()}, first: round "
                f"{min(entry.round for entry in missing)}). Restore it from a backup; without it nothing may be spent."
            )

    def close(self) -> None:
        """Unlocks the file for other runs."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _append(self, content: dict[str, Any]) -> None:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        sign = self._owner.sign if self._owner else None
        line = chained_line({"time": time, **content}, self._last, PURPOSE, sign)
        data = line + b"\n"
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)
        self._last, self._count = line_hash(line), self._count + 1
        self._seal()

    def _seal(self) -> None:
        """Overwrites the head, which always has the same length, in one write."""
        text = f"{self._count:012d} {self._last}".encode()
        if self._owner is not None:
            text += b" " + self._owner.sign(PURPOSE + text).hex().encode()
        head = os.open(self.path.with_suffix(HEAD), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.write(head, text + b"\n")
            os.fsync(head)
        finally:
            os.close(head)


def _secret(folder: Path) -> bytes:
    """The key of the hashes of rows in a folder; drawn with the first ledger."""
    path = folder / SECRET
    try:
        secret = bytes.fromhex(path.read_text("ascii", "replace").strip())
        if len(secret) == 32:
            return secret
    except FileNotFoundError:
        ledgers = [read_ledger(path, None) for path in folder.glob("*.jsonl")]
        if not any(ledger.last for ledger in ledgers):
            secret = secrets.token_bytes(32)
            write_atomically(path, secret.hex().encode() + b"\n", mode=0o600)
            return secret
    except ValueError:
        pass
    raise ConsilienceError(
        f"{path}, without which the ledgers in {folder} do not know their rows again, is missing or damaged. Restore "
        "it from a backup; without it nothing may be spent."
    )


def _check_of(secret: bytes) -> str:
    """A hash by which a ledger recognises the secret."""
    return hashlib.blake2b(b"", key=secret, digest_size=8, person=b"check").hexdigest()


def _other_secret(path: Path) -> ConsilienceError:
    return ConsilienceError(
        f"the privacy ledger {path} was written with another secret than {path.with_name(SECRET)}. Restore the two "
        "together from a backup; without them nothing may be spent."
    )


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
