"""Parquet files, measured before they are read: a few hundred bytes can stand for many gigabytes.

What the file says of its own size may be wrong, so that three things are added up: rows times the width of every column
of numbers; the sizes in the header of every page, which are what a reader allocates; and texts, which are read in small
batches, wherever possible as numbers of a dictionary.
"""

import mmap
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import reading
from consilience.base.malloc import machine_memory
from consilience.data.arrays import LARGEST, MOST_PACKED, SMALL

if TYPE_CHECKING:
    import pandas as pd

_WIDTHS = {"INT96": 16}
"""Bytes of a number, by its kind, where these are more than eight."""
_TEXT = "BYTE_ARRAY"
_SHARED_PREFIXES = 7
"""The encoding DELTA_BYTE_ARRAY: a text may repeat the whole of the one before, so a page says nothing of its size."""
_BATCH = 65_536


def read_parquet(path: Path, most_packed: int = 10 * MOST_PACKED) -> "pd.DataFrame":
    """The table in a parquet file, or a ConsilienceError before it takes more memory than such a file should.

    Args:
        path: The file.
        most_packed: How many times its size on the disk a table of more than 64 MiB may have in memory.
    """
    import pandas as pd

    with reading(path):
        check_parquet(path, most_packed)
        return pd.read_parquet(path)


def check_parquet(path: Path, most_packed: int = 10 * MOST_PACKED) -> None:
    """Refuses a file that would be unpacked to more than `most_packed` times its size, to 16 GiB, or to a quarter of
    this machine's memory. Every file may take 64 MiB.
    """
    import pyarrow.parquet as pq

    size = path.stat().st_size
    budget = _Budget(path, size, max(SMALL, min(LARGEST, most_packed * size, (machine_memory() or 4 * LARGEST) // 4)))
    with pq.ParquetFile(path) as file:
        columns = [file.schema.column(number) for number in range(len(file.schema))]
        budget.add(_widths(file.metadata, columns))
        with path.open("rb") as raw, closing(mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ)) as data:
            longest = _add_pages(columns, data, budget)
    texts = {column.path for column in columns if column.physical_type == _TEXT}
    for column in sorted(texts):
        rows = max(1, min(_BATCH, SMALL // longest.get(column, 1)))
        with pq.ParquetFile(path, read_dictionary=[] if column in longest else [column]) as file:
            for batch in file.iter_batches(rows, columns=[column], use_threads=False):
                for array in batch.columns:
                    budget.add(_spelled_out(array))


@dataclass
class _Budget:
    """How many bytes a file may still take."""

    path: Path
    size: int
    most: int
    taken: int = 0

    def add(self, more: int) -> None:
        if more < 0:
            raise ConsilienceError(f"{self.path} cannot be read: it says that a part of it has {more} bytes.")
        self.taken += more
        if self.taken > self.most:
            raise ConsilienceError(
                f"{self.path} would be unpacked from {self.size} to more than {self.most} bytes, and is not. If that "
                "is right, write it without compression and dictionaries: to_parquet(..., compression=None, "
                "use_dictionary=False)."
            )


def _widths(metadata: Any, columns: list[Any]) -> int:
    """Bytes of all rows of columns that have one value a row; of a text or of a missing value, its place."""
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if min(rows, default=0) < 0:
        return -1
    flat = [column for column in columns if not column.max_repetition_level]
    widths = [max(8, _WIDTHS.get(column.physical_type, 0), column.length or 0) for column in flat]
    return int(sum(rows) * sum(widths))


def _add_pages(columns: list[Any], data: mmap.mmap, budget: _Budget) -> dict[str, int]:
    """Adds the unpacked size of every page, and the values of columns with lists, of which a row may have any number.

    Returns the size of the largest page of texts with shared prefixes, by column. Where pages are stands in the file's
    last part; pyarrow ends the process where its statistics do not fit together, and is not asked for it.
    """
    longest: dict[str, int] = {}
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    groups = _Thrift(data, footer).struct()[0].get(4) or []
    for group in groups:
        for column, part in zip(columns, group[1], strict=True):
            chunk = part[3]
            if not chunk[5]:  # it has no values: no page of it is read
                continue
            first, directory = chunk[9], chunk.get(11)
            start = directory if directory and 0 < directory < first else first
            for page in _pages(data, start, start + chunk[7]):
                budget.add(page.unpacked)
                if column.max_repetition_level:
                    budget.add(8 * page.values)
                if page.encoding == _SHARED_PREFIXES:
                    longest[column.path] = max(longest.get(column.path, 1), page.unpacked)
    return longest


@dataclass(frozen=True)
class _Page:
    unpacked: int
    values: int
    encoding: int


def _pages(data: mmap.mmap, start: int, end: int) -> Iterator[_Page]:
    """The pages of a part of the file, by their headers (`PageHeader` in the format's definition)."""
    while start < end:
        header, start = _Thrift(data, start).struct()
        packed = header.get(3, -1)
        if not isinstance(packed, int) or packed < 0 or start + packed > len(data):
            raise ValueError("a page is longer than the file")
        start += packed
        inner = header.get(5) or header.get(8) or header.get(7) or {}
        yield _Page(header.get(2, -1), inner.get(1, 0), inner.get(2 if header.get(8) is None else 4, 0))


class _Thrift:
    """A reader of Thrift's compact protocol, in which headers of pages and the file's last part are written."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data, self._at = data, at

    def struct(self, depth: int = 0) -> tuple[dict[int, Any], int]:
        """The fields by number, and where the bytes behind them begin."""
        if depth > 8:
            raise ValueError("a header is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 15, depth)
        return fields, self._at

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # true and false, which are in the kind itself
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind in (7, 8):  # a double, or bytes, neither of which is needed
            self._skip(8 if kind == 7 else self._varint())
            return None
        if kind in (9, 10):
            head = self._byte()
            length = head >> 4 if head >> 4 < 15 else self._varint()
            values = (self._byte() if head & 15 in (1, 2) else self._value(head & 15, depth + 1) for _ in range(length))
            return [value for value in values if isinstance(value, dict)]  # of others none is needed
        if kind == 12:
            return self.struct(depth + 1)[0]
        raise ValueError("a header has a field of an unknown kind")

    def _byte(self) -> int:
        self._skip(1)
        return self._data[self._at - 1]

    def _skip(self, count: int) -> None:
        self._at += count
        if not 0 < self._at <= len(self._data):
            raise ValueError("a header is not in the file")

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a header has a number that is too long")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _spelled_out(array: Any) -> int:
    """Bytes of the texts in an array that was read as numbers of a dictionary, if every one is written out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        used = array.indices.drop_null().to_numpy(zero_copy_only=False)
        counts = np.bincount(used, minlength=len(lengths)) if len(used) else np.zeros(len(lengths), dtype=np.int64)
        return int(counts @ lengths)
    if isinstance(array, pa.ExtensionArray):
        return _spelled_out(array.storage)
    if pa.types.is_struct(array.type):
        return sum(_spelled_out(column) for column in array.flatten())
    return _spelled_out(array.flatten()) if pa.types.is_nested(array.type) else int(array.nbytes)
