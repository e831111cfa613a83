"""What goes into an exported model: rows in the form that it takes, and what prepares them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import reading
from consilience.base.rows import Rows
from consilience.data.columns import chosen_columns
from consilience.data.files import read_features, read_pixels, row_name
from consilience.data.preprocess import TablePreprocessing, stored_preprocessing
from consilience.export import trusted
from consilience.export.manifest import Inputs, Part
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class Scale:
    """(x - mean) / deviation, feature by feature."""

    mean: Array
    deviation: Array

    def __call__(self, x: Array) -> Array:
        """In single precision."""
        x = x.toarray() if hasattr(x, "toarray") else x
        scaled: Array = ((x - self.mean) / self.deviation).astype(np.float32)
        return scaled


AS_ARRAY = Scale(np.zeros(1), np.ones(1))
"""Makes an array in single precision of what a transformer returns."""
Prepare = Scale | TablePreprocessing | Any
"""A `Scale`, the preprocessing of a table, a `Backbone`, a fitted transformer of scikit-learn, or its `transform`."""


def function_of(step: Prepare) -> str:
    """The name and file of a Python function that makes a model's inputs; empty for a step that can be stored."""
    if hasattr(step, "rebuilt_by_name"):  # a backbone
        return "" if step.rebuilt_by_name else f"{step!r} of your program"
    if isinstance(step, Scale | TablePreprocessing) or hasattr(_transformer(step), "transform"):
        return ""
    name = getattr(step, "__qualname__", type(step).__qualname__)
    try:
        return f"`{name}` of {Path(inspect.getsourcefile(step) or '').name or 'your program'}"
    except TypeError:
        return f"`{name}` of your program"


def _transformer(step: Prepare) -> Any:
    """The fitted transformer whose method `transform` is `step`, or `step` itself."""
    owner = getattr(step, "__self__", None)
    return owner if owner is not None and getattr(step, "__name__", "") == "transform" else step


def write_prepare(number: int, step: Prepare) -> tuple[Part, bytes]:
    """A step of the preparation as a file."""
    if isinstance(step, Scale):
        from safetensors.numpy import save

        arrays = {"mean": np.ascontiguousarray(step.mean), "deviation": np.ascontiguousarray(step.deviation)}
        return Part("prepare", "scale", f"prepare-{number}.safetensors"), save(arrays)
    if isinstance(step, TablePreprocessing):
        return Part("prepare", "table", f"prepare-{number}.json"), step.to_json()
    if getattr(step, "rebuilt_by_name", False):
        return Part("prepare", "backbone", f"prepare-{number}.safetensors"), step.to_bytes()
    if function_of(step):
        raise ConsilienceError(
            f"{function_of(step)} is a Python function, which cannot be exported safely. Make it a transformer of "
            "scikit-learn, or apply it before predicting."
        )
    data = trusted.dump(_transformer(step), "the preprocessing")
    return Part("prepare", "skops", f"prepare-{number}.skops"), data


def read_prepare(step: Part, data: bytes) -> Callable[[Any], Any]:
    """Such a step, to be called with rows."""
    if step.form == "scale":
        from safetensors.numpy import load

        with reading(step.file):
            arrays = load(data)
            return Scale(arrays["mean"], arrays["deviation"])
    if step.form == "backbone":
        from consilience.agents.backbones.backbone import stored_backbone

        return stored_backbone(data, step.file)
    if step.form == "table":
        return stored_preprocessing(data, step.file)
    transform: Callable[[Any], Any] = trusted.load(data, step.file).transform
    return transform


def read_samples(path: Path, inputs: Inputs) -> Rows:
    """The samples in a file, or the images in a folder, as a model with these inputs takes them.

    Columns of a table may be in any order, and there may be more of them.
    """
    if path.is_dir() and inputs.largest:
        return read_pixels(path, inputs.side, inputs.shape[0])
    table = inputs.kind in ("table", "texts") or None
    if inputs.columns and inputs.dtype == "float64" and not table:  # in full precision: a tree may split between two
        x = read_features(path, inputs.columns, table=True)[0]
        gaps = np.argwhere(x.isna().to_numpy())
        if len(gaps):
            row, column = gaps[0].tolist()
            raise ConsilienceError(
                f"{path}: {row_name(path, row)} has no value in the column {inputs.columns[column]!r}."
            )
        return x
    return read_features(path, inputs.columns, table=table, side=inputs.side, words=inputs.words)[0]


def raw_inputs(rows: Rows, reads: TablePreprocessing, about: str = "") -> "tuple[Rows, Inputs]":
    """Rows as the columns that the preprocessing of a table needs, and what these are."""
    table, words = reads.table(rows), reads.words
    return table, Inputs("table", columns=tuple(reads.needed), meanings=reads.meanings, words=words, about=about)


def described(rows: Rows, columns: tuple[str, ...] = (), about: str = "") -> Inputs:
    """What rows like these are; `columns` are the names of an array's columns, where it was read from a table."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "fiub":
        return Inputs("array", tuple(rows.shape[1:]), str(rows.dtype), columns, about=about)
    if hasattr(rows, "detach"):
        return described(rows.detach().cpu().numpy(), columns, about)
    if hasattr(rows, "iloc") and rows.ndim == 2:
        names = [str(name) for name in rows.columns]
        types = {name: _type(rows.iloc[:, column]) for column, name in enumerate(names)}
        return Inputs("table", columns=tuple(names), types=types, about=about)
    if _are_texts(rows):
        return Inputs("texts", columns=columns, about=about)
    if hasattr(rows, "tocsr"):
        return Inputs("sparse", (int(rows.shape[1]),), about=about)
    if isinstance(rows, Mapping) and all(hasattr(array, "shape") for array in rows.values()):
        shapes = {str(name): [int(size) for size in array.shape[1:]] for name, array in rows.items()}
        return Inputs("arrays", parts=shapes, about=about)
    raise ConsilienceError(
        f"a model that takes {type(rows).__name__} cannot be exported. Give its agent a transform that makes arrays, a "
        "table or texts of them."
    )


def as_samples(x: Any, inputs: Inputs) -> Rows:
    """Rows as the model takes them: the columns that it knows, in its order; arrays of its shape; texts."""
    if inputs.kind == "table":
        return _table(x, inputs)
    if inputs.kind == "texts":
        return _texts(x)
    if inputs.kind == "arrays":
        return _arrays(x, inputs)
    if inputs.kind == "sparse" and hasattr(x, "tocsr"):
        if x.shape[1:] != inputs.shape:
            raise _wrong_shape(x.shape[1:], inputs.shape)
        return x
    if inputs.columns and hasattr(x, "columns"):
        x = chosen_columns(x, inputs.columns)
    samples = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    if inputs.largest:
        _check_pixels(samples, inputs.largest)
    if samples.dtype.kind not in "fiub":
        raise ConsilienceError(f"the samples are {samples.dtype}, and the model takes numbers. Encode them first.")
    if samples.ndim == 2 and len(inputs.shape) != 1 and samples.shape[1] == prod(inputs.shape):
        samples = samples.reshape(len(samples), *inputs.shape)
    if samples.shape[1:] != inputs.shape:
        raise _wrong_shape(samples.shape[1:], inputs.shape)
    wanted = np.dtype(inputs.dtype)
    return samples if samples.dtype.kind == wanted.kind == "f" else samples.astype(wanted)


def _table(x: Any, inputs: Inputs) -> Any:
    """A table with the columns of the model, each of its type."""
    import pandas as pd

    if not hasattr(x, "columns"):
        raise ConsilienceError(f"the model takes a table with the columns {', '.join(inputs.columns)}.")
    x = chosen_columns(x, inputs.columns)
    if inputs.meanings:  # the preprocessing reads columns of any type
        return x
    made = {}
    for name in inputs.columns:
        kind, column = inputs.types.get(name, "object"), x[name]
        try:
            dtype = pd.CategoricalDtype(kind[1:], ordered=kind[0] == "ordered") if isinstance(kind, list) else kind
            made[name] = column.astype(dtype)
        except (TypeError, ValueError) as error:
            raise ConsilienceError(f"the column {name!r} cannot be read as {kind}: {error}.") from None
    return pd.DataFrame(made)


def _type(column: Any) -> Any:
    """The name of a column's type; for categories a list with how they are ordered and what they are."""
    categories = getattr(column.dtype, "categories", None)
    if categories is None:
        return str(column.dtype)
    if not all(isinstance(category, str | int | float | bool) for category in categories.tolist()):
        raise ConsilienceError(f"the categories of the column {column.name!r} are neither words nor numbers.")
    return ["ordered" if column.dtype.ordered else "unordered", *categories.tolist()]


def _texts(x: Any) -> list[str]:
    if hasattr(x, "columns") and len(x.columns) == 1:
        x = x.iloc[:, 0]
    texts = x.tolist() if hasattr(x, "tolist") else list(x)
    if not _are_texts(texts):
        raise ConsilienceError("the model takes texts: give a list of them, or a file with one column of texts.")
    return texts


def _arrays(x: Any, inputs: Inputs) -> dict[str, Array]:
    if not isinstance(x, Mapping) or set(x) != set(inputs.parts):
        raise ConsilienceError(f"the model takes a dict of arrays with the parts {', '.join(inputs.parts)}.")
    arrays = {name: np.asarray(x[name]) for name in inputs.parts}
    for name, array in arrays.items():
        if list(array.shape[1:]) != inputs.parts[name]:
            raise _wrong_shape(array.shape[1:], tuple(inputs.parts[name]))
    return arrays


def _are_texts(rows: Any) -> bool:
    if hasattr(rows, "ndim") and rows.ndim == 1:
        rows = rows.tolist()
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, str) for row in rows)


def _check_pixels(samples: Array, largest: int) -> None:
    """Refuses samples that are not raw pixels, such as scaled ones."""
    good = samples.dtype.kind in "fiub" and (samples == np.floor(samples)) & (samples >= 0) & (samples <= largest)
    if not np.all(good):
        worst = samples[~good].flat[0] if np.ndim(good) else samples.dtype
        raise ConsilienceError(
            f"the model takes raw pixels, whole numbers from 0 to {largest}, and the samples hold {worst}. Give them "
            "as they were before they were scaled."
        )


def _wrong_shape(actual: tuple[int, ...], wanted: tuple[int, ...]) -> ConsilienceError:
    return ConsilienceError(
        f"a sample has the shape {tuple(actual)}, but the model takes {tuple(wanted)}. "
        "Give samples as rows, with the features that it was trained on."
    )
