"""Files: machine-specific folders, atomic writing, locks, and errors that name what cannot be read."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from consilience.base.errors import ConsilienceError, first_line

LOCK = ".lock"
"""The file by which a process locks a folder."""
_LOCKED: dict[Path, int] = {}
"""Folders that this process has locked, with the open file of each lock."""


def write_atomically(path: Path, *data: bytes | memoryview, mode: int = 0o666) -> None:
    """Writes all of `data`, one after another, or nothing.

    It goes to a temporary file, to the disk, then into place, and that to the disk.
    The temporary file is a new one, never one that somebody else put there, nor what a link there points to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.unlink(missing_ok=True)
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), mode)
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk needs the space
        raise


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """A context in which any failure becomes an error that names the file: libraries fail in many ways."""
    try:
        yield
    except ConsilienceError:
        raise
    except Exception as error:
        raise ConsilienceError(f"{path} cannot be read: {first_line(error)}.") from error


def read_small(path: Path, most: int) -> bytes:
    """A file's content; a ConsilienceError if it has more than `most` bytes."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ConsilienceError(f"{path} has more than {most} bytes and is not read.")
    return data


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk: what was put into place is there after a power cut, too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def lock_folder(path: Path) -> None:
    """Makes a folder this process's own until the process ends; refuses one that another process has locked.

    Where there are no such locks, as on Windows and on some network drives, nothing is refused.
    """
    try:
        import fcntl
    except ImportError:
        return
    folder = path.resolve()
    lock = folder / LOCK
    if folder in _LOCKED and lock.exists() and os.fstat(_LOCKED[folder]).st_ino == lock.stat().st_ino:
        return
    path.mkdir(parents=True, exist_ok=True)
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            os.close(file)
            raise ConsilienceError(
                f"another process works in {path}. Wait until it has ended, or choose another folder."
            ) from None
    _LOCKED[folder] = file


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """A context that one process is in at a time; the others wait. `lock` is a file for that alone."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


DATA_VARIABLE = "CONSILIENCE_DATA"
"""Names the folder of real data."""
CACHE_VARIABLE = "CONSILIENCE_CACHE"
"""Names the folder of what is costly to make again."""


def data_folder() -> Path | None:
    """The folder of real data, if one is named."""
    folder = os.environ.get(DATA_VARIABLE)
    return Path(folder) if folder else None


def cache_folder() -> Path:
    """Where decoded images and features are kept."""
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/consilience").expanduser()
