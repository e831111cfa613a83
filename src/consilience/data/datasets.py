"""Labelled datasets, as arrays."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.data import hub
from consilience.data.partition import first_of_each
from consilience.errors import ConsilienceError

Array = NDArray[Any]


@dataclass(frozen=True)
class Dataset:
    """Inputs (samples, ...) and class numbers (samples,); where samples come from hospitals, their numbers too."""

    x: Array
    y: Array
    classes: tuple[str, ...]
    groups: Array | None = None
    group_names: tuple[str, ...] = ()


def load(name: str, data_dir: str | Path | None = None, limit: int | None = None, side: int | None = None) -> Dataset:
    """A dataset by name: one that comes with scikit-learn, or a real one from `data_dir` or the Hugging Face hub.

    `limit` keeps the first so many of each class (within each hospital); images are brought to `side` x `side`.
    """
    if name not in known_names():
        raise ConsilienceError(f"unknown dataset {name!r}. Known: {', '.join(known_names())}.")
    if name in hub.SOURCES:
        return _images(name, data_dir, limit, side)
    if side:
        raise ConsilienceError(f"{name} comes in one size only. Leave out side.")
    data = _heart_disease(data_dir) if name == hub.HEART else DATASETS[name]()
    if not limit:
        return data
    origin = np.zeros_like(data.y) if data.groups is None else data.groups
    first = first_of_each(np.stack([data.y, origin]), limit)
    groups_left = None if data.groups is None else data.groups[first]
    return replace(data, x=data.x[first], y=data.y[first], groups=groups_left)


def known_names() -> list[str]:
    """Names that `load` takes; those that need no files first."""
    return [*sorted(DATASETS), *sorted([*hub.SOURCES, hub.HEART])]


def _images(name: str, data_dir: str | Path | None, limit: int | None, side: int | None) -> Dataset:
    """Images scaled from bytes to [-1, 1]."""
    found = hub.images(name, data_dir, limit, side)
    x = np.multiply(found.x, np.float32(2 / 255), dtype=np.float32)
    x -= 1
    return Dataset(x, found.y, found.classes, found.groups, found.group_names)


def _heart_disease(data_dir: str | Path | None) -> Dataset:
    x, y, groups = hub.heart_disease(data_dir)
    return Dataset(x, y, ("healthy", "diseased"), groups, hub.HOSPITALS)


def _digits() -> Dataset:
    """Handwritten digits, 1797 images of 8x8 pixels scaled to [-1, 1]; inside scikit-learn (UCI, E. Alpaydin)."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return Dataset((x / 8 - 1).astype(np.float32).reshape(-1, 1, 8, 8), y, tuple("0123456789"))


def _breast_cancer() -> Dataset:
    """Wisconsin breast cancer, 569 patients, 30 standardised features; inside scikit-learn (UCI, W. Wolberg)."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    x = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    return Dataset(x.astype(np.float32), bunch.target, tuple(str(n) for n in bunch.target_names))


DATASETS = {"digits": _digits, "breast-cancer": _breast_cancer}
