"""Writing files so that a kill or a power cut leaves whole ones."""

import os
from pathlib import Path


def write_atomically(path: Path, *data: bytes | memoryview) -> None:
    """Writes all of `data`, one after another, or nothing.

    It goes to a temporary file, to the disk, then into place, and that to the disk.
    The temporary file is a new one, never one that somebody else put there, nor what a link there points to.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    temporary.unlink(missing_ok=True)
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
        with os.fdopen(handle, "wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)  # a full disk needs the space
        raise


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk: what was put into place is there after a power cut, too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
