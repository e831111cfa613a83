"""How noisy an agent's own values are, measured out of sample."""

from collections.abc import Callable

import numpy as np

from consilience.core.metrics import rmse
from consilience.core.streams import stream
from consilience.tasks.protocol import Array

FOLDS = 5
SMALLEST = 1e-6
"""Noise is never less."""


def folds(seed: int, name: str, samples: int) -> list[tuple[Array, Array]]:
    """(samples to train on, samples to measure on), in which each sample is measured on once; fewer than two have none.

    >>> [(len(train), len(test)) for train, test in folds(0, "a", 12)]
    [(9, 3), (9, 3), (10, 2), (10, 2), (10, 2)]
    """
    if samples < 2:
        return []
    order = stream(seed, "noise", name).permutation(samples)
    split = np.array_split(order, min(FOLDS, samples))
    return [(np.sort(np.concatenate([other for other in split if other is not fold])), np.sort(fold)) for fold in split]


def noise_of(y: Array, splits: list[tuple[Array, Array]], predicted: Callable[[Array, Array], Array]) -> float:
    """sqrt(mean over samples and outputs of (f_without(x) - y)^2), f_without being a model that never saw the sample.

    `predicted(train, test)` returns what such a model predicts for the samples `test`. The noise of a single sample is
    taken to be as large as its label.
    """
    if not splits:
        return max(float(np.abs(y).max()), SMALLEST)
    held_out = np.empty(y.shape, dtype=np.float64)
    for train, test in splits:
        held_out[test] = predicted(train, test).reshape(held_out[test].shape)
    return max(rmse(held_out, y), SMALLEST)
