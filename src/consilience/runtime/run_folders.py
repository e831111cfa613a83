"""Run folders: where a run may write, one process at a time."""

import os
import shutil
from pathlib import Path

from consilience.base.errors import ConsilienceError
from consilience.base.files import LOCK, lock_folder


def claim_folder(path: Path, resume: bool, overwrite: bool = False) -> Path:
    """Makes and locks a folder to write a run into, until this process ends.

    A folder that holds something is an error, unless resuming or asked to overwrite.
    """
    if resume and not path.is_dir():
        raise ConsilienceError(f"there is no run in {path} to resume. Is the name right?")
    if path.exists() and not path.is_dir():
        raise ConsilienceError(f"{path} is a file, not a folder. Choose another folder.")
    if path.is_dir() and _holds_something(path) and not resume:
        if not overwrite:
            raise ConsilienceError(
                f"{path} already holds something and is not overwritten. "
                "Resume it, overwrite it, or choose another folder."
            )
        if not (path / "config.toml").is_file():
            raise ConsilienceError(f"{path} does not look like a run (no config.toml), so it is not replaced.")
        lock_folder(path)
        for old in path.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            elif old.name != LOCK:
                old.unlink()
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConsilienceError(
            f"cannot write to {path}: {error.strerror}. Choose a folder you may write to."
        ) from error
    lock_folder(path)
    return path


def _holds_something(path: Path) -> bool:
    return any(entry.name != LOCK for entry in path.iterdir())


def next_folder(parent: Path, name: str) -> Path:
    """parent/name-1, parent/name-2, ...: the first that does not exist."""
    return parent / f"{name}-{1 + _last_number(parent, name)}"


def last_folder(parent: Path, name: str) -> Path:
    """The newest of parent/name-1, parent/name-2, ..."""
    number = _last_number(parent, name)
    if not number:
        raise ConsilienceError(f"there is no run {parent / name}-... to resume. Name its folder.")
    return parent / f"{name}-{number}"


def _last_number(parent: Path, name: str) -> int:
    if not os.access(parent, os.R_OK):
        return 0
    tails = [path.name.removeprefix(f"{name}-") for path in parent.glob(f"{name}-*")]
    return max((int(tail) for tail in tails if tail.isdecimal()), default=0)
