"""Confidence intervals of scores: the bootstrap over test samples (Efron, 1979), for functions of sums."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.core import metrics

Array = NDArray[Any]
DRAWS = 500
FEW = 40
"""Number of test samples below which resamples alone are not enough."""
_BLOCK = 50


@dataclass(frozen=True)
class Sums:
    """A score as a function of sums, score(sum_i terms_i), so that a resample only needs how often samples occur."""

    terms: Callable[[Array, Array], Array]
    """(samples, terms) from predictions (samples, outputs) and labels."""
    score: Callable[[Array], Array]
    """The score from sums (..., terms); NaN if it is not defined."""
    samples: Callable[[Array], float] | None = None
    """For a score that is a share: its number of samples, from the sums over all samples (terms,)."""


def samples_behind(sums: Sums | None, f: Array, y: Array) -> float:
    """The number of samples on which a score depends; for a sensitivity those of its class."""
    return len(f) if sums is None or sums.samples is None else sums.samples(sums.terms(f, y).sum(axis=0))


def resampled(samples: int, draw: np.random.Generator, draws: int = DRAWS) -> Iterator[NDArray[np.float64]]:
    """How often each sample is in each of `draws` samples of the same size, drawn with replacement.

    In blocks (some draws, samples), to save memory.
    """
    for first in range(0, draws, _BLOCK):
        rows = min(_BLOCK, draws - first)
        picks = draw.integers(0, samples, (rows, samples)) + np.arange(rows)[:, None] * samples
        yield np.bincount(picks.ravel(), minlength=rows * samples).reshape(rows, samples).astype(np.float64)


def with_two_more(values: Array, samples: float, draw: np.random.Generator) -> Array:
    """d_b = (n D_b + K_b - L_b) / (n + 2) with K_b, L_b ~ Poisson(1), for differences D_b of two shares of n samples.

    As if there were two more samples, on each of which one of the two methods alone is right. On few samples both
    methods may agree everywhere. Then every D_b is 0, which does not prove that they are equally good. (The interval of
    Bonett and Price, 2012, for two shares of the same samples, as a bootstrap.)
    """
    more, less = draw.poisson(1, values.shape), draw.poisson(1, values.shape)
    return np.asarray((samples * values + more - less) / (samples + 2))


def widened(values: Array, centre: float, samples: float, t: float) -> Array:
    """c + (D_b - c) sqrt(n / (n - 1)) t / z, for differences D_b of resampled means and the `centre` c.

    `t` and z are the 97.5 % points of Student's distribution with n - 1 degrees of freedom and of the normal one. A
    resample varies as the sample does, (n - 1) / n of what that estimates, and the estimate is not sure either
    (Hesterberg, 2015). NaN for a single sample.
    """
    if samples < 2:
        return np.full_like(values, np.nan)
    factor = np.sqrt(samples / (samples - 1)) * t / NormalDist().inv_cdf(0.975)
    return np.asarray(centre + (values - centre) * factor)


def interval(values: Array) -> tuple[float, float]:
    """The 95 % percentile interval of the values of all draws; NaN without any.

    >>> interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.percentile(known, [2.5, 97.5])
    return float(low), float(high)


def mean_of(values: Callable[[Array, Array], Array], share: bool = False) -> Sums:
    """The mean over samples of a value (samples,) that each has; `share` if it is one for right and zero for wrong."""
    samples = _counted if share else None
    return Sums(lambda f, y: np.stack([values(f, y), np.ones(len(f))], axis=1), _ratio, samples)


def mean_where(values: Callable[[Array, Array], Array], where: Callable[[Array], Array]) -> Sums:
    """The share of samples with the value 1 among those whose label fulfils `where`."""
    return Sums(lambda f, y: np.stack([values(f, y) * where(y), where(y)], axis=1), _ratio, _counted)


def right(f: Array, y: Array) -> Array:
    """One where the most probable class is the true one."""
    return np.asarray(f.argmax(axis=1) == y, dtype=np.float64)


def _ratio(sums: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1], np.nan))


def _counted(sums: Array) -> float:
    return float(sums[1])


def _mean_known(values: Array) -> Array:
    """The mean over the last axis without NaN; NaN if all are."""
    known = ~np.isnan(values)
    return _ratio(np.stack([np.where(known, values, 0).sum(axis=-1), known.sum(axis=-1)], axis=-1))


def _balanced_terms(f: Array, y: Array) -> Array:
    """By class: right samples of it, and samples of it."""
    own = np.eye(f.shape[1])[y]
    return np.concatenate([own * right(f, y)[:, None], own], axis=1)


def _balanced(sums: Array) -> Array:
    hits, count = np.split(sums, 2, axis=-1)
    return _mean_known(_ratio(np.stack([hits, count], axis=-1)))


def _balanced_samples(sums: Array) -> float:
    """C^2 / sum_c 1/n_c over the classes present: a share of this number of samples has the same variance."""
    count = np.split(sums, 2)[1]
    return float((count > 0).sum() ** 2 / (1 / count[count > 0]).sum())


def _auc_terms(f: Array, y: Array) -> Array:
    """By class: V_i for its samples, their number, V_i - AUC for the others, and their number.

    V_i is the share of the pairs with sample i that are in order (DeLong et al., 1988). The AUC of a resample is
    approximated by AUC + the sum of the changes by each sample, as if no pair held two changed samples.
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


def _auc_samples(sums: Array) -> float:
    """4 / (1/n_c + 1/n_others), the mean over classes: as for a mean of two shares."""
    parts = sums.reshape(-1, 4)
    sides = parts[:, [1, 3]]
    return float((4 / (1 / sides[sides.min(axis=1) > 0]).sum(axis=1)).mean())


def _calibration_terms(f: Array, y: Array, bins: int = 15) -> Array:
    """By bin of the probability of the most probable class: right minus that probability; then one."""
    sure = f.max(axis=1).astype(np.float64)
    bin_of = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    return np.concatenate([np.eye(bins)[bin_of] * (right(f, y) - sure)[:, None], np.ones((len(y), 1))], axis=1)


def _calibration(sums: Array) -> Array:
    return np.asarray(np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1])


def _squares(f: Array, y: Array) -> Array:
    return np.asarray(np.square(f.astype(np.float64) - y.reshape(f.shape)).mean(axis=1))


def _surprise(f: Array, y: Array) -> Array:
    """- log f_y of every sample, as in `metrics.log_loss`."""
    tiny = np.finfo(f.dtype).eps
    return np.asarray(-np.log(np.clip(f[np.arange(len(y)), y], tiny, 1 - tiny)), dtype=np.float64)


def by_label(binary: Sums, pairs: Callable[[Array], Array]) -> Sums:
    """The mean over labels, without NaN, of a score for two classes, whose probabilities `pairs` returns.

    `binary.samples` is that of a mean over classes, with labels as classes.
    """

    def terms(f: Array, y: Array) -> Array:
        labels = range(f.shape[1])
        return np.concatenate([binary.terms(pairs(f[:, k]), y[:, k].astype(np.int64)) for k in labels], axis=1)

    def score(sums: Array) -> Array:
        each = len(binary.terms(np.full((1, 2), 0.5), np.zeros(1, np.int64))[0])
        return _mean_known(binary.score(sums.reshape(*sums.shape[:-1], -1, each)))

    return Sums(terms, score, binary.samples)


ACCURACY = mean_of(right, share=True)
BALANCED_ACCURACY = Sums(_balanced_terms, _balanced, _balanced_samples)
SENSITIVITY = mean_where(right, lambda y: y == 1)
SPECIFICITY = mean_where(right, lambda y: y == 0)
AUC = Sums(_auc_terms, _auc, _auc_samples)
LOG_LOSS = mean_of(_surprise)
CALIBRATION_ERROR = Sums(_calibration_terms, _calibration)
RMSE = Sums(mean_of(_squares).terms, lambda sums: np.sqrt(_ratio(sums)))
