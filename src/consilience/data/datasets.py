"""Labelled datasets, as arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.errors import ConsilienceError

Array = NDArray[Any]


@dataclass(frozen=True)
class Dataset:
    """Inputs (samples, ...) and class numbers (samples,)."""

    x: Array
    y: Array
    classes: tuple[str, ...]


def load(name: str) -> Dataset:
    """A dataset by name."""
    if name not in DATASETS:
        raise ConsilienceError(f"unknown dataset {name!r}. Known: {', '.join(sorted(DATASETS))}.")
    return DATASETS[name]()


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
