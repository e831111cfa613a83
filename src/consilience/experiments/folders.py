"""Run folders: where a run may write, and the settings it was made with."""

import os
import shutil
import tomllib
from dataclasses import asdict
from pathlib import Path

from consilience.errors import ConsilienceError
from consilience.experiments.settings import Settings, changed
from consilience.runtime.checkpoint import write_atomically


def claim_folder(path: Path, resume: bool, overwrite: bool = False) -> Path:
    """A folder to write a run into. One that holds something is an error, unless resuming or asked to overwrite."""
    if path.exists() and not path.is_dir():
        raise ConsilienceError(f"{path} is a file, not a folder. Choose another --out.")
    if path.is_dir() and any(path.iterdir()) and not resume:
        if not overwrite:
            raise ConsilienceError(
                f"{path} already holds something and is not overwritten. "
                "Use --resume to go on with it, --overwrite to replace it, or another --out."
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
            f"cannot write to {path}: {error.strerror}. Choose a folder you may write to with --out."
        ) from error
    return path


def next_folder(parent: Path, name: str) -> Path:
    """parent/name-1, parent/name-2, ...: the first that does not exist."""
    return parent / f"{name}-{1 + _last_number(parent, name)}"


def last_folder(parent: Path, name: str) -> Path:
    """The newest of parent/name-1, parent/name-2, ..."""
    number = _last_number(parent, name)
    if not number:
        raise ConsilienceError(f"there is no run {parent / name}-... to resume. Name one with --out.")
    return parent / f"{name}-{number}"


def _last_number(parent: Path, name: str) -> int:
    if not os.access(parent, os.R_OK):
        return 0
    tails = [path.name.removeprefix(f"{name}-") for path in parent.glob(f"{name}-*")]
    return max((int(tail) for tail in tails if tail.isdecimal()), default=0)


def settings_of(folder: Path) -> Settings:
    """The settings a run folder was made with."""
    path = folder / "config.toml"
    if not path.is_file():
        raise ConsilienceError(f"{folder} holds no run (no config.toml). Give the folder of a run.")
    try:
        return changed(Settings(), tomllib.loads(path.read_text()), str(path))
    except tomllib.TOMLDecodeError as error:
        raise ConsilienceError(f"{path} is damaged: {error}. Restore it, or start a new run.") from error


def write_config(settings: Settings, folder: Path) -> None:
    """Writes config.toml, or checks that the one that is there says the same."""
    path = folder / "config.toml"
    if path.is_file():
        before, now = asdict(settings_of(folder)), asdict(settings)
        differing = [f"{key} was {before[key]!r}, now {now[key]!r}" for key in now if now[key] != before[key]]
        if differing:
            raise ConsilienceError(
                f"{folder} was made with other settings: {'; '.join(differing)}. "
                "Resume it with the same settings, or choose another --out."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, settings.to_toml().encode())
