"""Arrays in the format safetensors without copies: to be written to a file, or sent to another worker."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.tasks.protocol import Array

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
