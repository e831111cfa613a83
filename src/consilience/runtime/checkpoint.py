"""Checkpoints: one safetensors file a round, written atomically, named by round and checksum. Never a pickle.

A finished run has the checksums of its files in SHA256SUMS, which `sha256sum -c` reads as well.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from consilience.agents.protocol import with_prefix as with_prefix
from consilience.base.errors import ConsilienceError
from consilience.base.files import read_small, write_atomically
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


SUMS, MOST_SUMS = "SHA256SUMS", 1_000_000


def write_sums(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes the checksums of `files`, contents by name."""
    write_atomically(folder / SUMS, _lines({name: hashlib.sha256(data).hexdigest() for name, data in files.items()}))


def replace_checked(folder: Path, name: str, data: bytes) -> None:
    """Replaces one of the files that the checksums of a folder name. Whenever it is stopped, the folder is whole."""
    before, after = checked_files(folder), {name: hashlib.sha256(data).hexdigest()}
    write_atomically(folder / SUMS, _lines(before), _lines(after))  # for a moment either content is right
    write_atomically(folder / name, data)
    write_atomically(folder / SUMS, _lines(before | after))


def _lines(sums: Mapping[str, str]) -> bytes:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()


def checked_files(folder: Path) -> dict[str, str]:
    """The checksum of each file that those of a folder name; an error if one was changed. Empty without checksums."""
    path = folder / SUMS
    if not path.is_file():
        return {}
    allowed = dict[str, set[str]]()
    for line in read_small(path, MOST_SUMS).decode("ascii", "replace").splitlines():
        fields = re.fullmatch(r"([0-9a-f]{64})  ([A-Za-z0-9._-]+)", line)
        if not fields:
            raise ConsilienceError(f"{path} is damaged. Restore it from a backup, or run again.")
        allowed.setdefault(fields[2], set()).add(fields[1])
    sums = {}
    for name, digests in allowed.items():
        sums[name] = _digest(folder / name) if (folder / name).is_file() else ""
        if sums[name] not in digests:
            raise ConsilienceError(
                f"{folder / name} is not as the run left it (its checksum in {SUMS} differs). "
                "Restore it from a backup, or run again."
            )
    return sums


def _digest(path: Path) -> str:
    """The SHA-256 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_TYPES = ["u8", "i8", "f8", "f4", "u4", "i4", "f2", "u2", "i2", "i1", "u1", "?"]
"""NumPy's names of types, in the order of their arrays in a file."""
_NAMES = ["U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL"]
"""Safetensors' names of the same types."""
_ORDER = {np.dtype(kind): number for number, kind in enumerate(_TYPES)}
_TYPE = {name: np.dtype(kind) for name, kind in zip(_NAMES, _TYPES, strict=True)}

Bytes = NDArray[np.uint8]


def packed(arrays: dict[str, Array]) -> list[Bytes]:
    """The header of a safetensors file, then the bytes of every array as a view.

    Arrays are ordered by size of their numbers, largest first, then by name, so that each is aligned.
    """
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    order = sorted(whole, key=lambda name: (_ORDER[whole[name].dtype], name))
    header, end = dict[str, Any](), 0
    for name in order:
        start, end = end, end + whole[name].nbytes
        kind = _NAMES[_ORDER[whole[name].dtype]]
        header[name] = {"dtype": kind, "shape": whole[name].shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    first = len(text).to_bytes(8, "little") + text
    return [np.frombuffer(first, np.uint8), *(whole[name].reshape(-1).view(np.uint8) for name in order)]


def unpacked(data: Bytes) -> dict[str, Array]:
    """The arrays of a safetensors file that this program made, as views of `data`."""
    begin = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:begin].tobytes())
    return {
        name: data[begin + at["data_offsets"][0] : begin + at["data_offsets"][1]]
        .view(_TYPE[at["dtype"]])
        .reshape(at["shape"])
        for name, at in header.items()
    }


def joined(blocks: Sequence[Bytes]) -> Bytes:
    """All blocks one after another."""
    return np.concatenate(blocks)
