"""Rows of any kind: samples as a user has them, before a model reads them.

Rows are a NumPy array of any type, a pandas DataFrame, a list (of texts, for example), a SciPy sparse matrix, a torch
tensor, a torch `Dataset`, a Hugging Face `Dataset`, or a dict of such, as a tokeniser gives. They keep their type:
they can be counted (`count`), selected (`take`), put together (`join`) and told from others (`fingerprint`).
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.row_kinds import Array as Array
from consilience.base.row_kinds import Rows as Rows
from consilience.base.row_kinds import TorchDatasets, called, kind_of
from consilience.base.row_kinds import as_rows as as_rows
from consilience.base.row_kinds import join as join
from consilience.base.row_kinds import sample_x as sample_x


def count(rows: Rows) -> int:
    """How many rows there are.

    >>> count({"tokens": np.zeros((3, 7)), "mask": np.ones((3, 7))})
    3
    """
    return kind_of(rows).count(rows)


def take(rows: Rows, index: Any) -> Rows:
    """The rows with these numbers, in this order, or a slice of them.

    >>> take(["a", "b", "c"], [2, 0])
    ['c', 'a']
    """
    numbers = np.arange(count(rows))[index] if isinstance(index, slice) else np.asarray(index)
    return kind_of(rows).take(rows, numbers)


def fingerprint(*rows: Rows) -> str:
    """SHA-256 of type, form, content and order of all rows.

    >>> fingerprint(np.arange(3)) == fingerprint(np.arange(3)), fingerprint(["a", "b"]) == fingerprint(["ab"])
    (True, False)
    """
    digest = hashlib.sha256()
    for some in rows:
        for fact in kind_of(some).facts(as_rows(some)):
            digest.update(fact)
    return digest.hexdigest()


def values_of(rows: Rows) -> int:
    """How many numbers a row has, as far as that can be told; 1 for texts."""
    shape = getattr(rows, "shape", ())
    return int(np.prod(shape[1:])) if len(shape) > 1 else 1


def labelled_rows(x: Any, y: Any, who: str) -> tuple[Rows, Any]:
    """Rows and labels, where `y` may be the name of a column of `x`, or missing where `x` holds pairs (x, y).

    >>> labelled_rows({"age": np.array([50, 61]), "ill": np.array([0, 1])}, "ill", "agent 'a'")
    ({'age': array([50, 61])}, array([0, 1]))
    """
    x = as_rows(x)
    if isinstance(y, str):
        columns = list(getattr(x, "column_names", getattr(x, "columns", x if isinstance(x, Mapping) else ())))
        if y not in columns:
            there = f"The columns are {', '.join(map(str, columns))}." if columns else f"{called(x)} has no columns."
            raise ConsilienceError(f"{who}: the labels are said to be in the column {y!r}. {there}")
        if hasattr(x, "column_names"):
            return x.remove_columns([y]), np.asarray(x.with_format(None)[y])
        rest = x.drop(columns=y) if hasattr(x, "drop") else {name: column for name, column in x.items() if name != y}
        return rest, x[y]
    if y is None:
        if not isinstance(kind_of(x), TorchDatasets) or not count(x) or sample_x(x[0]) is x[0]:
            raise ConsilienceError(f"{who} has no labels. Give y, or the name of the column that holds them.")
        return x, np.array([np.asarray(x[number][1]) for number in range(count(x))])
    return x, y
