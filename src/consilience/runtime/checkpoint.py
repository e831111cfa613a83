"""Checkpoints: one safetensors file a round, written atomically, named by round and checksum. Never a pickle."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import load

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.runtime.packing import packed
from consilience.tasks.protocol import Array

KEEP = 2
"""Number of checkpoints that stay. If the last is damaged, the one before it is used."""


def write(folder: Path, number: int, arrays: dict[str, Array]) -> None:
    """Saves the state after round `number`. A kill at any moment leaves a whole checkpoint behind."""
    blocks = [block.data for block in packed(arrays)]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"round-{number:05d}.{_checksum(*blocks)}.safetensors", *blocks)
    for old in _paths(folder)[:-KEEP]:
        old.unlink(missing_ok=True)


def read(folder: Path) -> tuple[int, dict[str, Array], list[str]]:
    """The newest whole checkpoint: round, arrays, and the names of damaged files that were passed over.

    Round 0 and no arrays if there is no file; an error if all files are damaged.
    """
    damaged: list[str] = []
    for path in reversed(_paths(folder)):
        data = path.read_bytes()
        _, checksum, _ = path.name.split(".")
        if checksum == _checksum(data):
            try:
                return int(path.name[6:11]), load(data), damaged
            except SafetensorError:
                pass
        damaged.append(path.name)
    if damaged:
        raise ConsilienceError(
            f"no checkpoint in {folder} can be read: {', '.join(damaged)} are damaged. "
            "Restore them from a backup, or delete them to start again from round 1."
        )
    return 0, {}, []


def with_prefix(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names begin with `prefix`, without it."""
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def by_agent(arrays: dict[str, Array], prefix: str = "") -> dict[str, dict[str, Array]]:
    """The arrays called prefix NAME/KEY by name, then by key."""
    nested: dict[str, dict[str, Array]] = {}
    for path, value in with_prefix(arrays, prefix).items():
        name, _, key = path.partition("/")
        nested.setdefault(name, {})[key] = value
    return nested


def flat(nested: Mapping[str, Mapping[str, Array]], prefix: str = "") -> dict[str, Array]:
    """The opposite of `by_agent`."""
    return {f"{prefix}{name}/{key}": value for name, arrays in nested.items() for key, value in arrays.items()}


def last_round(folder: Path) -> int:
    """The round of the newest checkpoint, damaged or not; 0 if there is no checkpoint."""
    return max((int(path.name[6:11]) for path in _paths(folder)), default=0)


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("round-*.*.safetensors"))


def _checksum(*data: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for block in data:
        digest.update(block)
    return digest.hexdigest()[:16]
