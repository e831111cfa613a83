"""Run folders: where a run may write."""

import os
import shutil
from pathlib import Path

from consilience.errors import ConsilienceError


def claim_folder(path: Path, resume: bool, overwrite: bool = False) -> Path:
    """A folder to write a run into. One that holds something is an error, unless resuming or asked to overwrite."""
    if path.exists() and not path.is_dir():
        raise ConsilienceError(f"{path} is a file, not a folder. Choose another folder.")
    if path.is_dir() and any(path.iterdir()) and not resume:
        if not overwrite:
            raise ConsilienceError(
                f"{path} already holds something and is not overwritten. "
                "Resume it, overwrite it, or choose another folder."
            )
        if not (path / "config.toml").is_file():
            raise ConsilienceError(f"{path} does not look like a run (no config.toml), so it is not replaced.")
        shutil.rmtree(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConsilienceError(
            f"cannot write to {path}: {error.strerror}. Choose a folder you may write to."
        ) from error
    return path


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
