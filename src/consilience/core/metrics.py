"""How good and how close predictions are."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Labels = NDArray[np.integer]


def accuracy(f: Array, y: Labels) -> float:
    """Share of samples whose most probable class is the true one. `f` is (samples, classes)."""
    return float((f.argmax(axis=1) == y).mean())


def balanced_accuracy(f: Array, y: Labels) -> float:
    """Mean over the classes present in `y` of the accuracy on that class.

    >>> balanced_accuracy(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.array([0, 0, 1]))
    0.5
    """
    right = f.argmax(axis=1) == y
    count = np.bincount(y)
    hits = np.bincount(y, weights=right)
    return float((hits[count > 0] / count[count > 0]).mean())


def rmse(f: Array, y: Array) -> float:
    """Root mean squared error over samples and outputs."""
    return float(np.sqrt(np.square(f.astype(np.float64) - y.reshape(f.shape)).mean()))


def cross_entropy(f: Array, psi: Array) -> float:
    """dist(f, psi) of the local objective for classification: mean over samples of - sum_c psi_c log f_c."""
    return float(-(psi * np.log(np.maximum(f, 1e-8))).sum(axis=1, dtype=np.float64).mean())


def squared_distance(f: Array, psi: Array) -> float:
    """dist(f, psi) of the local objective for regression: mean over samples of |f - psi|^2."""
    return float(np.square(f.astype(np.float64) - psi).sum(axis=1).mean())


def spread(f: Array) -> float:
    """Disagreement of all agents: mean over samples of max_c max_{i,j} |f_ic - f_jc|.

    Each term shrinks at least by lambda(W) when predictions are multiplied by W, so that under the ideal
    dynamics (label `eq-MK-update`) spread(t) <= spread(0) prod lambda(W). `f` is (agents, samples, outputs).

    >>> spread(np.array([[[0.9, 0.1]], [[0.6, 0.4]]])).__round__(3)
    0.3
    """
    return float((f.max(axis=0) - f.min(axis=0)).max(axis=1).mean(dtype=np.float64))


def distances_to_mean(f: Array) -> Array:
    """Disagreement of each agent with the collective: mean over samples of max_c |f_ic - mean_j f_jc|."""
    mean = f.mean(axis=0)
    return np.array([np.abs(own - mean).max(axis=1).mean(dtype=np.float64) for own in f])
