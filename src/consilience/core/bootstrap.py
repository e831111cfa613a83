"""How sure a score is: the bootstrap over test samples (Efron, 1979), for scores that are functions of sums."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.core import metrics

Array = NDArray[Any]
DRAWS = 500
_AT_ONCE = 50


@dataclass(frozen=True)
class Sums:
    """score(sum_i terms_i): what a score is of a sample in which some terms occur often, and some not at all."""

    terms: Callable[[Array, Array], Array]
    """(samples, terms) from predictions (samples, outputs) and labels."""
    score: Callable[[Array], Array]
    """Of the sums (..., terms); NaN where it is not defined."""


def resampled(samples: int, draw: np.random.Generator, draws: int = DRAWS) -> Iterator[NDArray[np.float64]]:
    """How often each sample is in each of `draws` samples of the same size, drawn with replacement.

    In parts (some draws, samples), which need less room.
    """
    for first in range(0, draws, _AT_ONCE):
        rows = min(_AT_ONCE, draws - first)
        picks = draw.integers(0, samples, (rows, samples)) + np.arange(rows)[:, None] * samples
        yield np.bincount(picks.ravel(), minlength=rows * samples).reshape(rows, samples).astype(np.float64)


def interval(values: Array) -> tuple[float, float]:
    """The 95 % percentile interval of the score, or difference of scores, that each draw has; NaN without any.

    >>> interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.percentile(known, [2.5, 97.5])
    return float(low), float(high)


def mean_of(values: Callable[[Array, Array], Array]) -> Sums:
    """The mean over samples of a value (samples,) that each has."""
    return Sums(lambda f, y: np.stack([values(f, y), np.ones(len(f))], axis=1), _ratio)


def mean_where(values: Callable[[Array, Array], Array], where: Callable[[Array], Array]) -> Sums:
    """The mean of a value over those samples whose label is such."""
    return Sums(lambda f, y: np.stack([values(f, y) * where(y), where(y)], axis=1), _ratio)


def right(f: Array, y: Array) -> Array:
    """One where the most probable class is the true one."""
    return np.asarray(f.argmax(axis=1) == y, dtype=np.float64)


def _ratio(sums: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1], np.nan))


def _mean_known(values: Array) -> Array:
    """The mean over the last axis of what is not NaN; NaN where nothing is known."""
    known = ~np.isnan(values)
    return _ratio(np.stack([np.where(known, values, 0).sum(axis=-1), known.sum(axis=-1)], axis=-1))


def _balanced_terms(f: Array, y: Array) -> Array:
    """By class: right samples of it, and samples of it."""
    own = np.eye(f.shape[1])[y]
    return np.concatenate([own * right(f, y)[:, None], own], axis=1)


def _balanced(sums: Array) -> Array:
    hits, count = np.split(sums, 2, axis=-1)
    return _mean_known(_ratio(np.stack([hits, count], axis=-1)))


def _auc_terms(f: Array, y: Array) -> Array:
    """By class: V_i for its samples, their number, V_i - AUC for the others, and their number.

    V_i is the share of pairs that sample i is in and that are in order (DeLong et al., 1988). The AUC of a resample is
    taken to be AUC + sum of its changes by each sample, as if no pair held two of the samples that changed.
    """
    parts = []
    for c in [1] if f.shape[1] == 2 else range(f.shape[1]):
        values, own = f[:, c], y == c
        area = metrics.area(values, own)
        inside, outside = np.sort(values[own]), np.sort(values[~own])
        below = (outside.searchsorted(values, "left") + outside.searchsorted(values, "right")) / 2
        above = len(inside) - (inside.searchsorted(values, "left") + inside.searchsorted(values, "right")) / 2
        wins = np.where(own, below / max(len(outside), 1), above / max(len(inside), 1) - area)
        parts += [wins * own, own, wins * ~own, ~own]
    return np.nan_to_num(np.stack(parts, axis=1).astype(np.float64))


def _auc(sums: Array) -> Array:
    parts = sums.reshape(*sums.shape[:-1], -1, 4)
    return _mean_known(_ratio(parts[..., :2]) + _ratio(parts[..., 2:]))


def _calibration_terms(f: Array, y: Array, bins: int = 15) -> Array:
    """By bin of the probability of the most probable class: right minus that probability; then one."""
    sure = f.max(axis=1).astype(np.float64)
    place = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    return np.concatenate([np.eye(bins)[place] * (right(f, y) - sure)[:, None], np.ones((len(y), 1))], axis=1)


def _calibration(sums: Array) -> Array:
    return np.asarray(np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1])


def _squares(f: Array, y: Array) -> Array:
    return np.asarray(np.square(f.astype(np.float64) - y.reshape(f.shape)).mean(axis=1))


def _surprise(f: Array, y: Array) -> Array:
    """- log f_y of every sample, as `metrics.log_loss` has it."""
    tiny = np.finfo(f.dtype).eps
    return np.asarray(-np.log(np.clip(f[np.arange(len(y)), y], tiny, 1 - tiny)), dtype=np.float64)


def by_label(one: Sums, pairs: Callable[[Array], Array]) -> Sums:
    """The mean over labels, where it is known, of a score for two classes, whose probabilities `pairs` gives."""

    def terms(f: Array, y: Array) -> Array:
        labels = range(f.shape[1])
        return np.concatenate([one.terms(pairs(f[:, k]), y[:, k].astype(np.int64)) for k in labels], axis=1)

    def score(sums: Array) -> Array:
        each = len(one.terms(np.full((1, 2), 0.5), np.zeros(1, np.int64))[0])
        return _mean_known(one.score(sums.reshape(*sums.shape[:-1], -1, each)))

    return Sums(terms, score)


ACCURACY = mean_of(right)
BALANCED_ACCURACY = Sums(_balanced_terms, _balanced)
SENSITIVITY = mean_where(right, lambda y: y == 1)
SPECIFICITY = mean_where(right, lambda y: y == 0)
AUC = Sums(_auc_terms, _auc)
LOG_LOSS = mean_of(_surprise)
CALIBRATION_ERROR = Sums(_calibration_terms, _calibration)
RMSE = Sums(mean_of(_squares).terms, lambda sums: np.sqrt(_ratio(sums)))
