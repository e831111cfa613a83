"""The kinds of rows, and what each can do. `base/rows.py` does it for rows of any kind.

Libraries that the user did not import are not imported here.
"""

import sys
from collections.abc import Mapping
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from consilience.base.crossed_rows import CrossedRows
from consilience.base.errors import ConsilienceError

Rows = Any
"""Whatever `as_rows` accepts."""
Array = NDArray[Any]
KNOWN = (
    "a NumPy array, a DataFrame, a list, a SciPy sparse matrix, a torch tensor or Dataset, a Hugging Face Dataset, "
    "or a dict of such"
)


class RowKind(Protocol):
    """What rows of one kind can do. Implementations inherit from it."""

    def holds(self, rows: Rows) -> bool:
        """Whether these are of this kind."""

    def count(self, rows: Rows) -> int:
        """How many."""
        return len(rows)

    def take(self, rows: Rows, index: Array) -> Rows:
        """Those with these numbers, in this order; a number may come several times."""

    def join(self, first: Rows, second: Rows) -> Rows:
        """One after the other."""

    def facts(self, rows: Rows) -> "list[bytes]":
        """Bytes that say which rows they are: type, form, content, order."""


@final
class _Arrays(RowKind):
    def holds(self, rows: Rows) -> bool:
        return isinstance(rows, np.ndarray)

    def take(self, rows: Array, index: Array) -> Array:
        return rows[index]

    def join(self, first: Array, second: Array) -> Array:
        return np.concatenate([first, second])

    def facts(self, rows: Array) -> list[bytes]:
        head = f"{rows.dtype.str}{rows.shape}".encode()
        plain = rows.dtype.kind not in "OT"
        return [head, np.ascontiguousarray(rows).tobytes() if plain else _text(rows.ravel())]


@final
class _Tables(RowKind):
    def holds(self, rows: Rows) -> bool:
        return _is(rows, "pandas", "DataFrame") or _is(rows, "pandas", "Series")

    def take(self, rows: Any, index: Array) -> Any:
        return rows.iloc[index]

    def join(self, first: Any, second: Any) -> Any:
        """Categories that only one of the two has are kept; columns are those of the first, by name."""
        import pandas as pd

        if isinstance(first, pd.Series):
            return pd.concat([first, second], ignore_index=True)
        missing = [name for name in first.columns if name not in second.columns]
        if missing:
            raise ConsilienceError(
                f"one table has no column {missing[0]!r}, another has. All rows need the same columns."
            )
        tables = first.copy(), second[list(first.columns)].copy()
        for name in first.columns:
            columns = [table[name] for table in tables]
            if isinstance(columns[0].dtype, pd.CategoricalDtype) and columns[0].dtype != columns[1].dtype:
                columns[1] = columns[1].astype("category")
                dtype = pd.api.types.union_categoricals(columns, ignore_order=True).dtype
                for table in tables:
                    table[name] = table[name].astype(dtype)
        return pd.concat(tables, ignore_index=True)

    def facts(self, rows: Any) -> list[bytes]:
        facts = [f"table{rows.shape}".encode()]
        columns = [rows] if rows.ndim == 1 else [rows[name] for name in rows.columns]
        for column in columns:
            values = column.to_numpy()
            facts.append(f"{column.name}:{column.dtype}".encode())
            facts.append(values.tobytes() if values.dtype.kind in "biufMm" else _text(values))
        return facts


@final
class _Lists(RowKind):
    """Lists of texts, images, dicts: of anything but rows of numbers."""

    def holds(self, rows: Rows) -> bool:
        return isinstance(rows, list)

    def take(self, rows: list[Any], index: Array) -> list[Any]:
        return [rows[number] for number in np.arange(len(rows))[index].tolist()]

    def join(self, first: list[Any], second: list[Any]) -> list[Any]:
        return [*first, *second]

    def facts(self, rows: list[Any]) -> list[bytes]:
        return [f"list({len(rows)})".encode(), *(_item(row) for row in rows)]


@final
class _Sparse(RowKind):
    def holds(self, rows: Rows) -> bool:
        return type(rows).__module__.startswith("scipy.sparse") and hasattr(rows, "tocsr")

    def count(self, rows: Any) -> int:
        return int(rows.shape[0])

    def take(self, rows: Any, index: Array) -> Any:
        return rows.tocsr()[index]

    def join(self, first: Any, second: Any) -> Any:
        from scipy import sparse

        return sparse.vstack([first, second]).tocsr()

    def facts(self, rows: Any) -> list[bytes]:
        table = rows.tocsr().copy()
        table.sum_duplicates()
        table.eliminate_zeros()
        head = f"sparse{table.dtype.str}{table.shape}".encode()
        positions = (numbers.astype(np.int64).tobytes() for numbers in (table.indptr, table.indices))
        return [head, *positions, table.data.tobytes()]


@final
class _Tensors(RowKind):
    def holds(self, rows: Rows) -> bool:
        return _is(rows, "torch", "Tensor")

    def take(self, rows: Any, index: Array) -> Any:
        import torch

        return rows[torch.from_numpy(np.arange(len(rows))[index]).to(rows.device)]

    def join(self, first: Any, second: Any) -> Any:
        import torch

        return torch.cat([first, second.to(first)])

    def facts(self, rows: Any) -> list[bytes]:
        import torch

        flat = rows.detach().cpu().contiguous().reshape(-1)
        return [f"tensor{rows.dtype}{tuple(rows.shape)}".encode(), flat.view(torch.uint8).numpy().tobytes()]


@final
class _HuggingFace(RowKind):
    def holds(self, rows: Rows) -> bool:
        return _is(rows, "datasets", "Dataset")

    def take(self, rows: Any, index: Array) -> Any:
        return rows.select(np.arange(len(rows))[index].tolist())

    def join(self, first: Any, second: Any) -> Any:
        from datasets import concatenate_datasets

        return concatenate_datasets([first, second])

    def facts(self, rows: Any) -> list[bytes]:
        facts = [f"dataset({len(rows)})".encode()]
        plain = rows.with_format(None)
        for name in sorted(rows.column_names):
            facts += [name.encode(), *(_item(value) for value in plain[name])]
        return facts


@final
class TorchDatasets(RowKind):
    """A `Dataset` with numbered samples. Of a sample that is a pair (x, y), x is the row."""

    def holds(self, rows: Rows) -> bool:
        return _is(rows, "torch.utils.data", "Dataset")

    def take(self, rows: Any, index: Array) -> Any:
        from torch.utils.data import Subset

        return Subset(rows, np.arange(len(rows))[index].tolist())

    def join(self, first: Any, second: Any) -> Any:
        from torch.utils.data import ConcatDataset

        return ConcatDataset([first, second])

    def facts(self, rows: Any) -> list[bytes]:
        return [f"dataset({len(rows)})".encode(), *(_item(sample_x(rows[number])) for number in range(len(rows)))]


@final
class _Dicts(RowKind):
    """Rows in several columns, such as the tokens and the mask of a text."""

    def holds(self, rows: Rows) -> bool:
        return isinstance(rows, Mapping)

    def count(self, rows: Mapping[str, Rows]) -> int:
        sizes = {name: kind_of(column).count(column) for name, column in rows.items()}
        if len(set(sizes.values())) != 1:
            raise ConsilienceError(f"the parts of a dict of rows have different lengths: {sizes}.")
        return next(iter(sizes.values()))

    def take(self, rows: Mapping[str, Rows], index: Array) -> dict[str, Rows]:
        return {name: kind_of(column).take(column, index) for name, column in rows.items()}

    def join(self, first: Mapping[str, Rows], second: Mapping[str, Rows]) -> dict[str, Rows]:
        if first.keys() != second.keys():
            raise ConsilienceError(
                f"one dict of rows has {', '.join(first)}, another {', '.join(second)}. Both need the same."
            )
        return {name: join(column, second[name]) for name, column in first.items()}

    def facts(self, rows: Mapping[str, Rows]) -> list[bytes]:
        return [
            fact for name in sorted(rows) for fact in (name.encode(), *kind_of(rows[name]).facts(as_rows(rows[name])))
        ]


@final
class _Crossed(RowKind):
    """Rows that are crossed in the space of features."""

    def holds(self, rows: Rows) -> bool:
        return isinstance(rows, CrossedRows)

    def take(self, rows: CrossedRows, index: Array) -> CrossedRows:
        return rows.take(index)

    def join(self, first: CrossedRows, second: CrossedRows) -> CrossedRows:
        raise ConsilienceError(
            "rows that are crossed in the space of features cannot be put together with others. Only networks learn "
            "from them."
        )

    def facts(self, rows: CrossedRows) -> list[bytes]:
        numbers = (indices.astype(np.int64).tobytes() for indices in (rows.a, rows.b, rows.key))
        return [f"crossed({len(rows)}, {rows.seed})".encode(), *numbers, *kind_of(rows.rows).facts(as_rows(rows.rows))]


_KINDS: tuple[RowKind, ...] = (
    _Arrays(),
    _Tables(),
    _Lists(),
    _Sparse(),
    _Tensors(),
    _HuggingFace(),
    TorchDatasets(),
    _Dicts(),
    _Crossed(),
)
_KIND_OF_TYPE: dict[type, RowKind] = {}


def as_rows(data: Any) -> Rows:
    """`data` as it is, if it is of a known kind; lists of numbers become arrays. Otherwise an error.

    >>> as_rows([[1, 2], [3, 4]]).shape, as_rows(["one", "two"])
    ((2, 2), ['one', 'two'])
    """
    if isinstance(data, tuple | range):
        data = list(data)
    if isinstance(data, list):
        return data if any(isinstance(row, str | bytes | Mapping) for row in data[:1]) else _array_or_list(data)
    if _known_kind(data) is not None:
        if not hasattr(data, "shape") and not hasattr(data, "__len__"):
            raise ConsilienceError(
                f"the rows of {type(data).__name__} cannot be counted. Give a Dataset with a length."
            )
        return data
    if hasattr(data, "__array__") and np.ndim(data) > 0:
        return np.asarray(data)
    raise ConsilienceError(f"{type(data).__name__} holds no rows. Give {KNOWN}.")


def kind_of(rows: Rows) -> RowKind:
    """What these rows can do."""
    kind = _known_kind(as_rows(rows))
    assert kind is not None
    return kind


def _known_kind(rows: Rows) -> RowKind | None:
    """The kind of these rows, determined once for each type; None where it is not known."""
    kind = _KIND_OF_TYPE.get(type(rows)) or next((kind for kind in _KINDS if kind.holds(rows)), None)
    if kind is not None:
        _KIND_OF_TYPE[type(rows)] = kind
    return kind


def join(first: Rows, second: Rows) -> Rows:
    """The rows of `first`, then those of `second`, which are of the same kind."""
    kind = kind_of(first)
    if kind is not kind_of(second):
        raise ConsilienceError(
            f"one part of the rows is {called(first)}, another {called(second)}. Give private and shared data in "
            "one form, or the agent a transform that reads both."
        )
    return kind.join(first, second)


def sample_x(sample: Any) -> Any:
    """Of a sample of a torch `Dataset` the part that a model reads: x of a pair (x, y)."""
    return sample[0] if isinstance(sample, tuple | list) and len(sample) == 2 else sample


def _array_or_list(data: list[Any]) -> Rows:
    """Rows of numbers as an array; rows of different lengths, images and other things as they are."""
    if any(_is(row, "torch", "Tensor") for row in data[:1]):
        import torch

        same = len({tuple(row.shape) for row in data}) == 1
        return torch.stack(data) if same else data
    try:
        array = np.asarray(data)
    except ValueError:
        return data
    return array if array.dtype.kind in "biufc" else data


def called(rows: Rows) -> str:
    return f"a {type(rows).__name__}"


def _is(thing: Any, module: str, name: str) -> bool:
    """Whether `thing` is an instance of a class of a module, which is not imported for that."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(thing, kind)


def _text(values: Array) -> bytes:
    return b"".join(_item(value) for value in values)


def _item(value: Any) -> bytes:
    """One value, so that no two that differ give the same bytes in a row of them."""
    if isinstance(value, str):
        data = value.encode()
    elif isinstance(value, bytes):
        data = value
    elif isinstance(value, Mapping):
        data = b"".join(_item(item) for pair in sorted(value.items()) for item in pair)
    elif isinstance(value, list | tuple):
        data = b"".join(_item(item) for item in value)
    elif isinstance(value, np.ndarray) or _is(value, "torch", "Tensor"):
        data = b"".join(kind_of(value if value.ndim else value.reshape(1)).facts(value))
    elif hasattr(value, "tobytes") and hasattr(value, "size"):  # an image
        data = repr(getattr(value, "size", "")).encode() + value.tobytes()
    else:
        data = repr(value).encode()
    return f"{type(value).__name__}:{len(data)}:".encode() + data
