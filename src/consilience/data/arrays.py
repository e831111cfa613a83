"""Arrays from files: nothing in them is executed, and the size of what is unpacked is limited."""

import zipfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from consilience.base.errors import ConsilienceError
from consilience.base.files import reading
from consilience.base.rows import Array

LARGEST = 2**34
"""Bytes of all arrays of a file, at most."""
SMALL, MOST_PACKED = 2**26, 200
"""Files that unpack to more than SMALL bytes may be compressed by a factor of MOST_PACKED at most."""


def read_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, Array]:
    """The arrays of an npz file: all, or those named that are there. Every one is checked against its checksum."""
    arrays = {}
    with reading(path), zipfile.ZipFile(path) as archive:
        _check_sizes(path, archive.infolist())
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for name in members if names is None else [name for name in names if name in members]:
            with archive.open(members[name]) as file:
                arrays[name] = _array(file, members[name].file_size)
    return arrays


def read_array(path: Path) -> Array:
    """The array of an npy file."""
    with reading(path), path.open("rb") as file:
        return _array(file, path.stat().st_size)


def _check_sizes(path: Path, members: list[zipfile.ZipInfo]) -> None:
    unpacked, packed = sum(info.file_size for info in members), sum(info.compress_size for info in members)
    if unpacked > LARGEST or (unpacked > SMALL and unpacked > MOST_PACKED * max(1, packed)):
        raise ConsilienceError(
            f"{path} would be unpacked from {packed} to {unpacked} bytes, and is not. If that is right, save it with "
            "numpy.savez, without compression."
        )


def _array(file: IO[bytes], size: int) -> Array:
    """One array in the npy format, of `size` bytes with its header."""
    head = file.read(min(size, 12))
    version = npy.read_magic(BytesIO(head))
    long = version > (1, 0)
    length = int.from_bytes(head[8 : 12 if long else 10], "little")
    if length > 10_000:
        raise ValueError("its header is too long")
    head += file.read(length + (12 if long else 10) - len(head))
    start = BytesIO(head)
    npy.read_magic(start)
    read = npy.read_array_header_2_0 if long else npy.read_array_header_1_0
    shape, fortran, kind = read(start, max_header_size=10_000)
    count = 1
    for side in shape:
        count *= side
    if kind.hasobject:
        raise ValueError("it holds objects, and nothing is unpickled")
    if min(shape, default=0) < 0 or count * kind.itemsize != size - len(head) or size > LARGEST:
        raise ValueError("it does not hold the numbers that its header says")
    flat = np.frombuffer(bytearray(file.read(size - len(head))), dtype=kind, count=count)
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)
