"""By what a ledger knows private rows again, also where they are written otherwise; nothing without its secret.

Rows are compared without their labels. Three things are kept of them:

- of every row, a hash of all of its values, whatever their order and the names of their columns;
- of every row, the same without each one of its columns: so rows are known after one column was left out, added,
  exchanged (another label) or written otherwise (other units);
- of every column with enough different numbers, its order statistics between its least and its largest value: they stay
  as they are when the numbers are scaled or shifted, so rows are known after all units have changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.rows import Array

Hashes = NDArray[np.uint64]
SAME, SIMILAR, OTHER = "same", "similar", "other"
"""How rows stand to others: some are equal; they seem to be the same, written otherwise; neither."""
MOST_HASHES = 500_000
"""Rows times columns above which rows are not hashed without each one of their columns."""
FEWEST_COLUMNS = 3
"""With fewer, what is left of a row without one of its columns says too little."""
SHARE = 0.1
"""Of the smaller set, the share of rows that must be equal but for one column."""
MOST_SHAPES = 64
"""Columns whose shape is kept."""
DIFFERENT = 10
"""Numbers that a column must have for its shape to say something."""
_GAP = 0x9E3779B97F4A7C15
_GRID, _OFFSET = 997, 0.3137


@dataclass(frozen=True)
class RowFingerprints:
    """Of a set of private rows; their order does not count."""

    rows: Hashes
    """Of every whole row, sorted (rows,)."""
    without_one: Hashes
    """Of every row without each one of its columns (rows, columns); (rows, 0) where that is not kept."""
    shapes: frozenset[str]
    """Of columns."""

    def name(self, secret: bytes) -> str:
        """A name of the set of rows, for its file."""
        return _keyed(secret, "set", self.rows.tobytes(), 16).hex()


def row_fingerprints(x: Any, secret: bytes) -> RowFingerprints:
    """Fingerprints of rows without labels: a table, or an array whose rows are flattened.

    Args:
        x: Rows (rows, ...).
        secret: Keys every hash. Who does not have it can test no guess of a row.
    """
    columns = list(_columns(x))
    keys = [int.from_bytes(_keyed(secret, "value", bytes([k]), 8), "little") for k in range(2)]
    total = np.zeros(len(x) if not columns else len(columns[0]), dtype=np.uint64)
    by_column = len(columns) >= FEWEST_COLUMNS and total.size * len(columns) <= MOST_HASHES
    values = []
    for column in columns:
        hashes = _value_hashes(column, keys, secret)
        total += hashes
        if by_column:
            values.append(hashes)
    rest = total[:, None] - np.stack(values, axis=1) if by_column else np.zeros((len(total), 0), dtype=np.uint64)
    order = np.argsort(rows := _hidden(total, secret))
    return RowFingerprints(rows[order], _hidden(rest, secret)[order], _shapes(columns, secret))


def relation(new: RowFingerprints, old: RowFingerprints) -> str:
    """How new rows stand to those of a ledger: SAME, SIMILAR or OTHER."""
    if np.isin(new.rows, old.rows).any():
        return SAME
    smaller = max(1, min(len(new.rows), len(old.rows)))
    if _equal_but_for_one_column(new, old) >= SHARE * smaller:
        return SIMILAR
    fewer = min(len(new.shapes), len(old.shapes))
    return SIMILAR if fewer and len(new.shapes & old.shapes) >= fewer / 2 else OTHER


def _equal_but_for_one_column(new: RowFingerprints, old: RowFingerprints) -> int:
    """New rows that are equal to an old one without one column of the new, of the old, or of both.

    What several of the new rows have in common says nothing of one of them.
    """
    if not new.without_one.size and not old.without_one.size:
        return 0
    known = np.concatenate([old.rows, old.without_one.ravel()])
    equal = np.isin(new.rows, old.without_one) & _in_one_row(new.rows[:, None])[:, 0]
    if new.without_one.size:
        equal |= (np.isin(new.without_one, known) & _in_one_row(new.without_one)).any(axis=1)
    return int(equal.sum())


def _in_one_row(hashes: Hashes) -> NDArray[np.bool_]:
    """Which of some hashes (rows, n) no other row has."""
    ordered = np.sort(hashes, axis=1)
    first = np.ones(ordered.shape, dtype=bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    different, rows = np.unique(ordered[first], return_counts=True)
    return np.asarray(rows[np.searchsorted(different, hashes)] == 1)


def _columns(x: Any) -> Iterator[Array]:
    """Each column as single-precision numbers, or as texts."""
    if hasattr(x, "iloc"):
        for number in range(x.shape[1]):
            yield _column(x.iloc[:, number].to_numpy())
        return
    parts = x.values() if isinstance(x, Mapping) else [x]
    for values in parts:
        array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
        for column in array.reshape(len(array), -1).T:
            yield _column(column)


def _column(values: Array) -> Array:
    """Numbers where all values are numbers, texts that read as numbers included; else texts."""
    if values.dtype.kind in "biuf":
        return np.asarray(values, dtype=np.float32)
    texts = ["" if value is None or value != value else str(value).strip() for value in values.tolist()]
    try:
        return np.array([float(text) if text else np.nan for text in texts], dtype=np.float32)
    except ValueError:
        return np.array(texts, dtype=object)


def _value_hashes(column: Array, keys: list[int], secret: bytes) -> Hashes:
    """A keyed hash of every value (rows,)."""
    if column.dtype.kind == "f":
        bits = (column + np.float32(0)).view(np.uint32).astype(np.uint64)  # + 0: there is a zero with a sign
        hashes = _mixed(_mixed(bits ^ np.uint64(keys[0])) ^ np.uint64(keys[1]))
        return np.where(np.isnan(column), np.uint64(_GAP), hashes)
    known = {text: int.from_bytes(_keyed(secret, "text", text.encode(), 8), "little") for text in set(column.tolist())}
    return np.array([known[text] for text in column.tolist()], dtype=np.uint64)


def _mixed(bits: Hashes) -> Hashes:
    """Every bit depends on every other (the last step of SplitMix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _hidden(sums: Hashes, secret: bytes) -> Hashes:
    """Keyed hashes of sums of hashes, of the same shape."""
    hashes = b"".join(_keyed(secret, "row", value.to_bytes(8, "little"), 8) for value in sums.ravel().tolist())
    return np.frombuffer(hashes, dtype="<u8").astype(np.uint64).reshape(sums.shape)


def _shapes(columns: list[Array], secret: bytes) -> frozenset[str]:
    """Keyed hashes of the shapes of columns; of wide rows only some columns are looked at."""
    step = max(1, len(columns) // MOST_SHAPES)
    shapes = (_shape(column) for column in columns[::step][:MOST_SHAPES] if column.dtype.kind == "f")
    return frozenset(_keyed(secret, "shape", shape, 8).hex() for shape in shapes if shape)


def _shape(column: Array) -> bytes:
    """Octiles of (x - min) / (max - min), on a grid, and how many numbers there are; empty if they say little.

    A column and its mirror image (a change of sign) have the same shape.
    """
    numbers = np.sort(column[np.isfinite(column)].astype(np.float64))
    gaps = np.diff(np.unique(numbers))
    if len(gaps) + 1 < DIFFERENT or np.allclose(gaps, gaps[0]):  # as in row numbers, which all tables have alike
        return b""
    scaled = (numbers - numbers[0]) / (numbers[-1] - numbers[0])
    places = np.round(np.linspace(0, len(numbers) - 1, 9)[1:-1]).astype(int)
    mirrored = 1 - scaled[::-1]
    either = [np.floor(_GRID * each[places] + _OFFSET).astype(int).tolist() for each in (scaled, mirrored)]
    return f"{len(numbers)} {min(either)}".encode()


def _keyed(secret: bytes, purpose: str, message: bytes, size: int) -> bytes:
    return blake2b(message, digest_size=size, key=secret, person=purpose.encode()).digest()
