"""Data from a site's own files: npz, npy, csv or parquet. Nothing in them is executed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from consilience.data.arrays import LARGEST, MOST_PACKED, SMALL, read_array, read_arrays
from consilience.errors import ConsilienceError

if TYPE_CHECKING:
    import pandas as pd

    from consilience.data.datasets import Array

KINDS = (".npz", ".npy", ".csv", ".parquet")


def read_features(path: Path, columns: Sequence[str] = ()) -> "tuple[Array, list[str]]":
    """Samples without labels: an array, or `x` of an npz file, or the columns of a table; and the columns' names.

    Of a table the given `columns` are used, in their order, or all.
    """
    if path.suffix == ".npy":
        return _numbers(read_array(path), path), []
    if path.suffix == ".npz":
        return _numbers(_member(path, "x"), path), []
    table = _table(path)
    wanted = list(columns or table.columns)
    return _matrix(table, wanted, path), wanted


def read_labelled(path: Path, label: str, classes: tuple[str, ...], columns: list[str]) -> "tuple[Array, Array]":
    """Samples and class numbers: `x` and `y` of an npz file, or a table whose column `label` holds the class.

    Of a table the given `columns` are used, in their order (those of the shared data), or all but the label.
    """
    if path.suffix == ".npz":
        return _numbers(_member(path, "x"), path), _class_numbers(_member(path, "y"), classes, path)
    table = _table(path)
    wanted = columns or [name for name in table.columns if name != label]
    _check_columns(table, [label, *wanted], path)
    return _matrix(table, wanted, path), _class_numbers(table[label].to_numpy(), classes, path)


def _class_numbers(y: "NDArray[np.generic]", classes: tuple[str, ...], path: Path) -> "Array":
    """Labels given as class names or as numbers 0, 1, ... in the order of the classes."""
    if np.issubdtype(y.dtype, np.number):
        values = y.astype(np.float64)
        good = (values == np.floor(values)) & (values >= 0) & (values < len(classes))
        numbers = np.where(good, values, 0).astype(np.int64)
    else:
        place = {name: number for number, name in enumerate(classes)}
        found = [place.get(str(value), -1) for value in y]
        numbers = np.array(found, dtype=np.int64)
        good = numbers >= 0
    if not good.all():
        row = int((~good).argmax())
        raise ConsilienceError(
            f"{path}: the label {y[row]!r} in row {row} is no class. Use the names {', '.join(classes)}, "
            f"or numbers 0 to {len(classes) - 1}."
        )
    return numbers


def _member(path: Path, name: str) -> "Array":
    found = read_arrays(path, [name])
    if name not in found:
        raise ConsilienceError(f"{path} holds no array {name!r}. Save it with numpy.savez.")
    return found[name]


def _table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    if path.suffix not in KINDS:
        raise ConsilienceError(f"{path}: unknown kind of file. Known: {', '.join(KINDS)}.")
    try:
        if path.suffix == ".csv":
            return pd.read_csv(path)
        _check_parquet(path)
        return pd.read_parquet(path)
    except ConsilienceError:
        raise
    except Exception as error:  # a damaged file makes readers fail in many ways
        raise ConsilienceError(f"{path} cannot be read: {str(error)[:300] or type(error).__name__}.") from None


def _check_parquet(path: Path) -> None:
    """Refuses a table that would be unpacked to more than a file may hold."""
    import pyarrow.parquet as pq

    found = pq.read_metadata(path)
    groups = (found.row_group(number) for number in range(found.num_row_groups))
    unpacked = max(sum(group.total_byte_size for group in groups), 8 * found.num_rows * found.num_columns)
    size = path.stat().st_size
    if unpacked > LARGEST or (unpacked > SMALL and unpacked > 10 * MOST_PACKED * size):
        raise ConsilienceError(f"{path} would be unpacked from {size} to {unpacked} bytes, and is not.")


def _check_columns(table: "pd.DataFrame", columns: list[str], path: Path) -> None:
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise ConsilienceError(f"{path} has no column {missing[0]!r}. It has: {', '.join(map(str, table.columns))}.")


def _matrix(table: "pd.DataFrame", columns: list[str], path: Path) -> "Array":
    _check_columns(table, columns, path)
    words = [name for name in columns if not np.issubdtype(np.asarray(table[name]).dtype, np.number)]
    if words:
        raise ConsilienceError(f"{path}: the column {words[0]!r} holds no numbers. Encode it as numbers at every site.")
    return _numbers(table[columns].to_numpy(np.float32), path)


def _numbers(x: "Array", path: Path) -> "Array":
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        row = int(np.argwhere(~np.isfinite(x))[0][0])
        raise ConsilienceError(f"{path}: row {row} has a missing or infinite value. Fill such values in beforehand.")
    return x
