"""Datasets inside scikit-learn, and the regression example of the paper, which comes divided among agents."""

import numpy as np

from consilience.base.rows import Array
from consilience.data.datasets import Dataset, RawScale, Request, Size, dataset
from consilience.data.scenario import Scenario, polynomial

PIXELS = RawScale(np.array([8.0]), np.array([8.0]), "Pixels are those of the UCI digits: 0 is paper, 16 is ink.", 16)


@dataset("digits", Size(1797, 10, 64))
def digits(request: Request) -> Dataset:
    """Handwritten digits, 1797 images of 8x8 pixels scaled to [-1, 1] (UCI, E. Alpaydin)."""
    x, y = _digits()
    return Dataset(x, y, tuple("0123456789"), raw=PIXELS)


@dataset("digit-properties", Size(1797, 1, 64))
def digit_properties(request: Request) -> Dataset:
    """The same images with four labels each: whether the digit is even, prime, above four, and has a closed loop."""
    x, y = _digits()
    digits_with = {"even": (0, 2, 4, 6, 8), "prime": (2, 3, 5, 7), "above four": (5, 6, 7, 8, 9), "loop": (0, 6, 8, 9)}
    labels = np.stack([np.isin(y, chosen) for chosen in digits_with.values()], axis=1).astype(np.int64)
    return Dataset(x, labels, tuple(digits_with), task="multilabel", raw=PIXELS)


@dataset("breast-cancer", Size(569, 2, 30))
def breast_cancer(request: Request) -> Dataset:
    """Wisconsin breast cancer, 569 patients, 30 standardised features (UCI, W. Wolberg)."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    mean, deviation = bunch.data.mean(axis=0), bunch.data.std(axis=0)
    x = (bunch.data - mean) / deviation
    columns = tuple(str(name) for name in bunch.feature_names)
    scale = RawScale(mean, deviation, "Features are in the units of the UCI table.", columns=columns)
    return Dataset(x.astype(np.float32), bunch.target, tuple(str(n) for n in bunch.target_names), raw=scale)


def _digits() -> tuple[Array, Array]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return (x / 8 - 1).astype(np.float32).reshape(-1, 1, 8, 8), y


@dataset("polynomial", Size(200, 1, 1))
def made(request: Request) -> Scenario:
    """At most four agents, three unless asked otherwise, that see different ranges of one cubic curve."""
    return polynomial(request.seed, request.agents or 3)
