"""Scores of many agents on the same samples in one pass: those of `metrics`, to the bit."""

from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MOST_SAMPLES = 8192
"""Largest number of samples whose sums NumPy makes in the same order for many agents as for one."""


@final
class Predictions:
    """Predictions (agents, samples, classes) and labels (samples,), with what several scores need of them.

    >>> f = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.3, 0.7]]], dtype=np.float32)
    >>> accuracy(Predictions(f, np.array([0, 1]))).tolist()
    [1.0, 0.5]
    """

    def __init__(self, f: Array, y: Array) -> None:
        self.f, self.y = f, y

    @property
    def fits(self) -> bool:
        """Whether one pass gives the same bits as one agent after another."""
        return self.f.dtype == np.float32 and 0 < len(self.y) <= MOST_SAMPLES

    @cached_property
    def predicted(self) -> Array:
        """The most probable class (agents, samples)."""
        return np.asarray(self.f.argmax(axis=2))

    @cached_property
    def right(self) -> Array:
        """Whether it is the true one."""
        return np.asarray(self.predicted == self.y)

    def nothing(self) -> Array:
        """NaN for every agent."""
        return np.full(len(self.f), np.nan)


def accuracy(p: Predictions) -> Array:
    """`metrics.accuracy` of every agent."""
    return np.asarray(p.right.mean(axis=1))


def accuracy_on(label: int, p: Predictions) -> Array:
    """`metrics.accuracy_on` of every agent."""
    own = p.y == label
    return np.asarray(p.right[:, own].mean(axis=1)) if own.any() else p.nothing()


def sensitivity(p: Predictions) -> Array:
    """`metrics.sensitivity` of every agent."""
    return accuracy_on(1, p) if p.f.shape[2] == 2 else p.nothing()


def specificity(p: Predictions) -> Array:
    """`metrics.specificity` of every agent."""
    return accuracy_on(0, p) if p.f.shape[2] == 2 else p.nothing()


def balanced_accuracy(p: Predictions) -> Array:
    """`metrics.balanced_accuracy` of every agent."""
    count = np.bincount(p.y)
    known = np.flatnonzero(count)
    hits = np.stack([p.right[:, p.y == c].sum(axis=1) for c in known], axis=1)
    return np.asarray((hits / count[known]).mean(axis=1))


def auc(p: Predictions) -> Array:
    """`metrics.auc` of every agent."""
    columns = [1] if p.f.shape[2] == 2 else range(p.f.shape[2])
    positive = p.y == np.array(columns)[:, None]
    known = positive.any(axis=1) & ~positive.all(axis=1)
    if not known.any():
        return p.nothing()
    values = np.moveaxis(p.f, 2, 1)[:, np.array(columns)[known]]
    return np.asarray(np.ascontiguousarray(areas(values, positive[known])).mean(axis=1))


def areas(values: Array, positive: NDArray[np.bool_]) -> Array:
    """`metrics.area` for values (agents, columns, samples) in single precision and `positive` (columns, samples).

    A value and its side are one whole number, so that one sort puts a positive behind the others of the same value, and
    as many others as are before it are not above it. Of those as many are equal as the tied pairs.
    """
    bits = (np.ascontiguousarray(values) + np.float32(0)).view(np.int32)  # + 0, as -0 is 0
    keys = (
        bits.view(np.uint32) << 1 if bits.min() >= 0 else 2 * np.where(bits < 0, -(2**31) - bits.astype(np.int64), bits)
    )
    keys = np.sort(keys | positive, axis=-1)
    own = (keys & 1).astype(np.int32)
    samples, own_count = positive.shape[-1], positive.sum(axis=-1)
    above = (own * np.arange(samples, dtype=np.int32)).sum(axis=-1) - own_count * (own_count - 1) // 2
    pairs = own_count * (samples - own_count)
    return np.asarray((2 * above - _tied_pairs(keys >> 1, own)) / 2 / pairs)


def _tied_pairs(values: Array, own: Array) -> Array:
    """Pairs of a positive and another of the same value, in rows of sorted values (..., samples)."""
    same = np.zeros(values.shape, bool)
    same[..., 1:] = values[..., 1:] == values[..., :-1]
    if not same.any():
        return np.zeros(values.shape[:-1], np.int64)
    tied = same.copy()
    tied[..., :-1] |= same[..., 1:]
    places = np.flatnonzero(tied)  # of values that are not alone; a group begins where one differs from that before it
    first = np.flatnonzero(~same.ravel()[places])
    positives = np.add.reduceat(own.ravel()[places], first)
    others = np.diff(first, append=len(places)) - positives
    rows = places[first] // values.shape[-1]
    pairs = np.bincount(rows, positives * others, minlength=values[..., 0].size)
    return np.asarray(pairs.astype(np.int64).reshape(values.shape[:-1]))


def log_loss(p: Predictions) -> Array:
    """`metrics.log_loss` of every agent."""
    tiny = np.finfo(p.f.dtype).eps
    own = np.clip(p.f[:, np.arange(len(p.y)), p.y], tiny, 1 - tiny)
    return np.asarray(-np.log(np.ascontiguousarray(own)).astype(np.float64).mean(axis=1))


def calibration_error(p: Predictions, bins: int = 15) -> Array:
    """`metrics.calibration_error` of every agent."""
    sure = p.f.max(axis=2).astype(np.float64)
    bin_of = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1) + bins * np.arange(len(p.f))[:, None]
    gap = np.bincount(bin_of.ravel(), (p.right - sure).ravel(), minlength=bins * len(p.f))
    return np.asarray(np.abs(gap.reshape(len(p.f), bins)).sum(axis=1) / len(p.y))
