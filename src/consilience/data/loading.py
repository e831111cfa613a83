"""A dataset by its name, or the user's own: a csv, parquet or npz file, csv files, images, a Hugging Face folder."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.options import hint
from consilience.base.rows import Array
from consilience.data.arrays import read_arrays
from consilience.data.columns import read_columns
from consilience.data.datasets import DATASETS, Dataset, Request, first_of_classes
from consilience.data.files import (
    KINDS,
    csv_files,
    labelled_table,
    pixels_of,
    read_labelled,
    read_table_and_notes,
    row_name,
    scaled,
    split_names,
)
from consilience.data.hub import SAVED, check_files, check_pictures, hugging_face
from consilience.data.scenario import Scenario
from consilience.data.table_notes import apart, column_lines, differing_columns, table_warnings
from consilience.tasks import task_named
from consilience.tasks.protocol import numbered


def load(name: str, request: Request | None = None) -> Dataset | Scenario:
    """A dataset, or a scenario where the data come divided among agents.

    Args:
        name: The name of a registered dataset, or the path of a file or folder.
        request: What is asked of it.
    """
    request = request or Request()
    if is_path(name):
        return first_of_classes(read_own(Path(name), request), request.limit)
    data: Dataset | Scenario = DATASETS.find(name)(request)
    return data


def is_path(name: str) -> bool:
    """Whether a dataset is the user's own file or folder. One called as a known dataset is meant by ./NAME."""
    named_by_path = Path(name).suffix.lower() in KINDS or "/" in name or Path(name).exists()
    return bool(name) and name not in DATASETS.names() and named_by_path


def check_there(path: Path) -> None:
    """Refuses a path that does not exist."""
    if not path.exists():
        raise ConsilienceError(f"the dataset {path} does not exist. Paths are relative to the folder you are in.")


def read_own(path: Path, request: Request) -> Dataset:
    """The dataset in a file or folder, as `data.label`, `data.agent` and `data.task` say."""
    check_there(path)
    if path.is_dir() and _is_hugging_face(path):
        x, y, owner = _hugging_face_rows(path, request)
        if not hasattr(x, "iloc"):
            return _labelled(path, request, x, y, owner)
        features = x[_feature_names(list(x.columns), request)]
        return _with_columns(path, request, x, _labelled(path, request, features, y, owner), [])
    if path.suffix.lower() in (".csv", ".parquet") or csv_files(path):
        table, how, owner, names_row = _table(path, request)
        names = [str(name) for name in table.columns]
        if owner is None:
            owner = _owner(path, request, names, lambda name: table[name].astype(str).to_numpy())
        x, y = labelled_table(table, path, request.label, (), _feature_names(names, request))
        rest = table[[name for name in table.columns if name not in _not_features(request)]]
        return _with_columns(path, request, rest, _labelled(path, request, x, y, owner), how, names_row)
    arrays = read_arrays(path, [request.agent]) if path.suffix.lower() == ".npz" and request.agent else {}
    owner = _owner(path, request, list(arrays), lambda name: arrays[name].astype(str))
    x, y = read_labelled(path, request.label, (), side=request.side)
    return _labelled(path, request, x, y, owner)


def _table(path: Path, request: Request) -> tuple[Any, list[str], Array | None, Callable[[int], str]]:
    """A table; how it was read; whose rows these are, where a folder has a file for each agent; names of its rows."""
    files = csv_files(path) or [path]
    read = [read_table_and_notes(file) for file in files]
    for file, (table, _) in zip(files, read, strict=True):
        _check_labels(file, request, [str(name) for name in table.columns])
    if files == [path]:
        return *read[0], None, partial(row_name, path)
    import pandas as pd

    tables = [table for table, _ in read]
    rows = [(file, row) for file, table in zip(files, tables, strict=True) for row in range(len(table))]
    owner = None if request.agent else np.array([file.stem for file, _ in rows])
    notes = [note for _, notes in read for note in notes]
    return (
        pd.concat(tables, ignore_index=True),
        notes,
        owner,
        lambda row: f"{row_name(*rows[row])} of {rows[row][0].name}",
    )


def _check_labels(path: Path, request: Request, columns: list[str]) -> None:
    """Refuses a file that lacks a column of labels."""
    for label in split_names(request.label):
        if label not in columns:
            raise ConsilienceError(
                f"{path} has no column {label!r} of labels. {'' if label == 'label' else hint(label, columns)}"
                f"Name it with label=NAME. It has: {', '.join(columns)}."
            )


def _with_columns(
    path: Path,
    request: Request,
    table: Any,
    data: Dataset,
    how: list[str],
    names_row: Callable[[int], str] = "row {}".format,
) -> Dataset:
    """The dataset with what its columns hold, `how` the file was read, and what may be wrong with it."""
    try:
        columns = read_columns(table, request.types, request.drop)
    except ConsilienceError as error:
        raise ConsilienceError(f"{path}: {error}") from None
    notes, repeated = apart(how)
    warnings = repeated + table_warnings(table, columns, data.y, data.task, row_name=names_row)
    if data.groups is not None:
        by_agent = {name: table[data.groups == number] for number, name in enumerate(data.group_names)}
        warnings += differing_columns(columns, by_agent)
    return replace(
        data,
        columns=tuple(column for column in columns if column.name not in request.drop),
        notes=(*notes, *column_lines(columns)),
        warnings=tuple(warnings),
    )


def _feature_names(names: list[str], request: Request) -> list[str]:
    features = [name for name in names if name not in (*_not_features(request), *request.drop)]
    if not features:
        raise ConsilienceError("no column is left as a feature. Take some out of data.drop.")
    return features


def _not_features(request: Request) -> list[str]:
    return [*split_names(request.label), request.agent]


def _owner(path: Path, request: Request, columns: list[str], column: Any) -> Array | None:
    """The name of the agent that each row belongs to."""
    if not request.agent:
        return None
    if request.agent not in columns:
        there = f"{hint(request.agent, columns)}It has: {', '.join(columns)}." if columns else "It has no columns."
        raise ConsilienceError(f"{path} has no column {request.agent!r} that says whose a row is. {there}")
    import pandas as pd

    owner = np.asarray(column(request.agent))
    gaps = np.flatnonzero(pd.isna(owner))
    if len(gaps):
        more = f" and in {len(gaps) - 1} more" if len(gaps) > 1 else ""
        raise ConsilienceError(
            f"{path}: the column {request.agent!r} says whose a row is, and it is empty in "
            f"{row_name(path, int(gaps[0]))}{more}. Fill it in, or remove these rows."
        )
    return owner


def _labelled(path: Path, request: Request, x: Any, y: Any, owner: Array | None) -> Dataset:
    task = task_named(request.task)
    names: tuple[str, ...] = ()
    labels = np.asarray(y)
    try:
        if task.has_classes:
            labels, names = _classes(labels)
        elif task.named_outputs:
            names = tuple(split_names(request.label))
            labels = labels.reshape(len(labels), -1)
            names = names if len(names) == labels.shape[1] else tuple(str(n) for n in range(labels.shape[1]))
        labels = task.labels(labels)
    except ConsilienceError as error:
        raise ConsilienceError(f"{path}: {error}") from None
    if owner is None:
        return Dataset(x, labels, names, task=request.task)
    agents, groups = np.unique(owner, return_inverse=True)
    if len(agents) < 2 and not request.agent:
        raise ConsilienceError(f"{path} holds one csv file; there must be one for each agent, and at least two.")
    if len(agents) < 2:
        raise ConsilienceError(f"{path}: the column {request.agent!r} names one agent; there must be at least two.")
    return Dataset(x, labels, names, groups, tuple(str(name) for name in agents), task=request.task)


def _classes(y: Array) -> tuple[Array, tuple[str, ...]]:
    """Class numbers and names; classes may be words or whole numbers."""
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all():
        y = y.astype(np.int64)
    if y.dtype.kind in "iu":
        kinds, numbers = np.unique(y, return_inverse=True)
        return numbers.astype(np.int64), tuple(str(kind) for kind in kinds)
    numbers, names = numbered(task_named("classification"), y)
    if not names:
        raise ConsilienceError("the labels are fractions. For values instead of classes set task=regression.")
    return numbers, names


def _is_hugging_face(path: Path) -> bool:
    """Whether `save_to_disk` wrote the folder, or it is laid out as on the hub."""
    return any((path / name).is_file() for name in SAVED) or any(path.rglob("*.parquet"))


def _hugging_face_rows(path: Path, request: Request) -> tuple[Any, Any, Array | None]:
    """Rows as a table, or as images if a column holds images; labels; the agent of each row."""
    with hugging_face(offline=True) as library:
        try:
            check_files(library, path)
            saved = any((path / name).is_file() for name in SAVED)
            loaded = library.load_from_disk(str(path)) if saved else library.load_dataset(str(path))
        except ConsilienceError:
            raise
        except Exception as error:  # the library raises some twenty kinds, its own and others'
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ConsilienceError(f"cannot read the Hugging Face folder {path} ({reason}).") from error
        rows = library.concatenate_datasets(list(loaded.values())) if isinstance(loaded, dict) else loaded
        columns = list(rows.column_names)
        _check_labels(path, request, columns)
        owner = _owner(path, request, columns, lambda name: rows.with_format(None)[name][:])
        y = _label_columns(rows, split_names(request.label))
        features = [name for name in columns if name not in _not_features(request)]
        pictures = [name for name in features if type(rows.features[name]).__name__ == "Image"]
        if pictures:
            check_pictures(rows, pictures[0], path)
            return _pictures(rows, pictures[0], request.side), y, owner
        return rows.select_columns(features).to_pandas(), y, owner


def _label_columns(rows: Any, names: list[str]) -> Any:
    """One column, by the names of its classes if it has such; or several as a table."""
    plain = rows.with_format(None)
    if len(names) > 1:
        return np.stack([np.asarray(plain[name][:]) for name in names], axis=1)
    labels = np.asarray(plain[names[0]][:])
    classes = getattr(rows.features[names[0]], "names", None)
    return np.array([classes[number] for number in labels]) if classes else labels


def _pictures(rows: Any, column: str, side: int) -> NDArray[np.float32]:
    """Images (samples, 3, height, width) in [-1, 1]; of several sizes, all get that of the first."""
    size = (side, side) if side else rows[0][column].size
    return scaled(np.stack([pixels_of(row[column], 3, size) for row in rows.select_columns([column])]))
