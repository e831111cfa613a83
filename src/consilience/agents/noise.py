"""How noisy an agent's own values are, out of sample. A model that repeats its training data knows nothing of it."""

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

    `predicted(train, test)` says what such a model makes of the samples `test`. One sample says nothing of its noise:
    then it is taken to be as large as the label.
    """
    if not splits:
        return max(float(np.abs(y).max()), SMALLEST)
    held_out = np.empty(y.shape, dtype=np.float64)
    for train, test in splits:
        held_out[test] = predicted(train, test).reshape(held_out[test].shape)
    return max(rmse(held_out, y), SMALLEST)
