"""Scores of predictions, and distances between predictions."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Labels = NDArray[np.integer]
Measure = Callable[[Array, Labels], float]


def accuracy(f: Array, y: Labels) -> float:
    """Share of samples whose most probable class is the true one. `f` is (samples, classes)."""
    return float((f.argmax(axis=1) == y).mean())


def accuracy_on(label: int, f: Array, y: Labels) -> float:
    """The accuracy on samples of one class; NaN without any."""
    own = y == label
    return accuracy(f[own], y[own]) if own.any() else float("nan")


def sensitivity(f: Array, y: Labels) -> float:
    """With two classes, the share of samples of the second (such as ill) that are recognised; NaN with more."""
    return accuracy_on(1, f, y) if f.shape[1] == 2 else float("nan")


def specificity(f: Array, y: Labels) -> float:
    """With two classes, the share of samples of the first (such as healthy) that are recognised; NaN with more."""
    return accuracy_on(0, f, y) if f.shape[1] == 2 else float("nan")


def balanced_accuracy(f: Array, y: Labels) -> float:
    """Mean over the classes present in `y` of the accuracy on that class.

    >>> balanced_accuracy(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.array([0, 0, 1]))
    0.5
    """
    right = f.argmax(axis=1) == y
    count = np.bincount(y)
    hits = np.bincount(y, weights=right)
    return float((hits[count > 0] / count[count > 0]).mean())


def auc(f: Array, y: Labels) -> float:
    """Area under the ROC curve: the probability that a sample of a class gets a higher value for it than another.

    Equal values count half. With two classes the second's; with more the mean over the classes that some samples
    have and others have not, each against the rest. NaN without such a class.

    >>> auc(np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]), np.array([0, 0, 1, 1]))
    0.75
    """
    columns = [1] if f.shape[1] == 2 else range(f.shape[1])
    areas = [area(f[:, c], y == c) for c in columns]
    known = [value for value in areas if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def log_loss(f: Array, y: Labels) -> float:
    """Mean over samples of - log f_y, with f kept away from 0 and 1 by the precision of its numbers."""
    tiny = np.finfo(f.dtype).eps
    own = np.clip(f[np.arange(len(y)), y], tiny, 1 - tiny)
    return float(-np.log(own).mean(dtype=np.float64))


def calibration_error(f: Array, y: Labels, bins: int = 15) -> float:
    """Expected calibration error (Guo et al., 2017, equation 5): sum_b |B_b|/n |acc(B_b) - conf(B_b)|.

    The bins B_b divide the probability of the most probable class, from 0 to 1, evenly.
    """
    sure, right = f.max(axis=1).astype(np.float64), f.argmax(axis=1) == y
    bin_of = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    gap = np.bincount(bin_of, right - sure, minlength=bins)
    return float(np.abs(gap).sum() / len(y))


def area(values: Array, positive: NDArray[np.bool_]) -> float:
    """The AUC of `values` for telling `positive` samples from others: pairs that are in order, ties half."""
    own, others = np.sort(values[positive]), np.sort(values[~positive])  # faster if sorted
    if not len(own) or not len(others):
        return float("nan")
    below, not_above = (int(others.searchsorted(own, side).sum()) for side in ("left", "right"))
    return (below + not_above) / 2 / (len(own) * len(others))


def rmse(f: Array, y: Array) -> float:
    """Root mean squared error over samples and outputs."""
    return float(np.sqrt(np.square(f.astype(np.float64) - y.reshape(f.shape)).mean()))


def cross_entropy(f: Array, psi: Array) -> float:
    """dist(f, psi) of the local objective for classification: mean over samples of - sum_c psi_c log f_c."""
    return float(-(psi * np.log(np.maximum(f, 1e-8))).sum(axis=1, dtype=np.float64).mean())


def squared_distance(f: Array, psi: Array) -> float:
    """dist(f, psi) of the local objective for regression: mean over samples of |f - psi|^2."""
    return float(np.square(f.astype(np.float64) - psi).sum(axis=1).mean())


def disagreement(f: Array) -> float:
    """Disagreement of all agents: mean over samples of max_c max_{i,j} |f_ic - f_jc|.

    Each term shrinks at least by lambda(W) when predictions are multiplied by W, so that under the ideal
    dynamics (label `eq-MK-update`) disagreement(t) <= disagreement(0) prod lambda(W).
    `f` is (agents, samples, outputs).

    >>> disagreement(np.array([[[0.9, 0.1]], [[0.6, 0.4]]])).__round__(3)
    0.3
    """
    return float((f.max(axis=0) - f.min(axis=0)).max(axis=1).mean(dtype=np.float64))


def distances_to_mean(f: Array) -> Array:
    """Disagreement of each agent with the collective: mean over samples of max_c |f_ic - mean_j f_jc|."""
    mean = f.mean(axis=0)
    return np.array([np.abs(own - mean).max(axis=1).mean(dtype=np.float64) for own in f])
