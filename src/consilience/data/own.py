"""The user's own dataset: a csv, parquet or npz file, a folder of images, or a Hugging Face folder."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.data.arrays import read_arrays
from consilience.data.datasets import Array, Dataset, Request
from consilience.data.files import KINDS, read_labelled, read_table, split_names
from consilience.data.hub import SAVED, check_files, check_pictures, hugging_face
from consilience.errors import ConsilienceError
from consilience.tasks import task_named
from consilience.tasks.protocol import numbered


def is_own(name: str) -> bool:
    """Whether a dataset is named by its path: a file of a known kind, or a folder."""
    return Path(name).suffix in KINDS or "/" in name or Path(name).is_dir()


def read_own(path: Path, request: Request) -> Dataset:
    """The dataset in a file or folder, as `data.label`, `data.agent` and `data.task` say."""
    if not path.exists():
        raise ConsilienceError(f"the dataset {path} does not exist. Paths are relative to the folder you are in.")
    if path.is_dir() and _is_hugging_face(path):
        return _labelled(path, request, *_hugging_face_rows(path, request))
    if path.suffix in (".csv", ".parquet"):
        table = read_table(path)
        owner = _owner(path, request, list(table.columns), lambda name: table[name].astype(str).to_numpy())
        x, y = read_labelled(path, request.label, (), [c for c in table.columns if c not in _taken(request)])
        return _labelled(path, request, x, y, owner)
    if path.suffix == ".npz":
        found = read_arrays(path, [request.agent]) if request.agent else {}
        owner = _owner(path, request, list(found), lambda name: found[name].astype(str))
    else:
        owner = _owner(path, request, [], lambda name: np.zeros(0))
    x, y = read_labelled(path, request.label, (), side=request.side)
    return _labelled(path, request, x, y, owner)


def _taken(request: Request) -> list[str]:
    """Columns that are no features."""
    return [*split_names(request.label), request.agent]


def _owner(path: Path, request: Request, columns: list[str], column: Any) -> "NDArray[Any] | None":
    """The name of the agent that each row belongs to."""
    if not request.agent:
        return None
    if request.agent not in columns:
        there = f"It has: {', '.join(columns)}." if columns else "It has no columns."
        raise ConsilienceError(f"{path} has no column {request.agent!r} that says whose a row is. {there}")
    return np.asarray(column(request.agent))


def _labelled(path: Path, request: Request, x: Any, y: Any, owner: "NDArray[Any] | None") -> Dataset:
    """A dataset with numbered classes and agents."""
    task = task_named(request.task)
    names: tuple[str, ...] = ()
    labels = np.asarray(y)
    try:
        if task.sums_to_one:
            labels, names = _classes(labels)
        elif not task.noisy:
            names = tuple(split_names(request.label))
            labels = labels.reshape(len(labels), -1)
            names = names if len(names) == labels.shape[1] else tuple(str(n) for n in range(labels.shape[1]))
        labels = task.labels(labels)
    except ConsilienceError as error:
        raise ConsilienceError(f"{path}: {error}") from None
    if owner is None:
        return Dataset(x, labels, names, task=request.task)
    agents, groups = np.unique(owner, return_inverse=True)
    if len(agents) < 2:
        raise ConsilienceError(f"{path}: the column {request.agent!r} names one agent; there must be at least two.")
    return Dataset(x, labels, names, groups, tuple(str(name) for name in agents), task=request.task)


def _classes(y: Array) -> tuple[Array, tuple[str, ...]]:
    """Class numbers and names, of words and of whole numbers alike."""
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.floor(y)).all():
        y = y.astype(np.int64)
    if y.dtype.kind in "iu":
        kinds, numbers = np.unique(y, return_inverse=True)
        return numbers.astype(np.int64), tuple(str(kind) for kind in kinds)
    numbers, found = numbered(task_named("classification"), y)
    if not found:
        raise ConsilienceError("the labels are fractions. For values instead of classes set task=regression.")
    return numbers, found


def _is_hugging_face(path: Path) -> bool:
    """Whether `save_to_disk` wrote the folder, or it is laid out as on the hub."""
    return any((path / name).is_file() for name in SAVED) or any(path.rglob("*.parquet"))


def _hugging_face_rows(path: Path, request: Request) -> tuple[Any, Any, "NDArray[Any] | None"]:
    """Rows as a table, or as images where a column holds such; labels; and whose each row is."""
    with hugging_face(offline=True) as library:
        try:
            check_files(library, path)
            saved = any((path / name).is_file() for name in SAVED)
            found = library.load_from_disk(str(path)) if saved else library.load_dataset(str(path))
        except ConsilienceError:
            raise
        except Exception as error:  # the library raises some twenty kinds, its own and others'
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ConsilienceError(f"cannot read the Hugging Face folder {path} ({reason}).") from error
        rows = library.concatenate_datasets(list(found.values())) if isinstance(found, dict) else found
        columns = list(rows.column_names)
        for name in split_names(request.label):
            if name not in columns:
                raise ConsilienceError(f"{path} has no column {name!r} of labels. It has: {', '.join(columns)}.")
        owner = _owner(path, request, columns, lambda name: np.asarray(rows.with_format(None)[name][:]).astype(str))
        y = _label_columns(rows, split_names(request.label))
        features = [name for name in columns if name not in _taken(request)]
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
    found = np.asarray(plain[names[0]][:])
    classes = getattr(rows.features[names[0]], "names", None)
    return np.array([classes[number] for number in found]) if classes else found


def _pictures(rows: Any, column: str, side: int) -> "NDArray[np.float32]":
    """Images (samples, 3, height, width) in [-1, 1]."""
    first = rows[0][column]
    width, height = (side, side) if side else first.size
    x = np.empty((len(rows), 3, height, width), dtype=np.float32)
    for number, row in enumerate(rows.select_columns([column])):
        picture = row[column].convert("RGB")
        picture = picture if picture.size == (width, height) else picture.resize((width, height), resample=2)
        x[number] = np.asarray(picture).transpose(2, 0, 1) * np.float32(2 / 255) - 1
    return x
