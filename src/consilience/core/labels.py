"""Pseudo-labels for the shared data: predictions mixed by trust."""

import numpy as np
from numpy.typing import NDArray

from consilience.core.duals import SCALES
from consilience.core.trust import CHUNK_BYTES

Array = NDArray[np.floating]


def pseudo_labels(w: Array, f: Array, out: Array | None = None) -> Array:
    """Soft pseudo-labels, the first equation of the paper: psi_i = sum_j w_ij f_j.

    Returned is (rows, samples, outputs) in the precision of `f`.

    Args:
        w: Trust (rows, agents).
        f: Predictions (agents, samples, outputs): probabilities, or values for regression.
        out: Array for the result, which may be `f` itself.

    >>> f = np.array([[[0.9, 0.1]], [[0.5, 0.5]]])
    >>> pseudo_labels(np.array([[0.75, 0.25]]), f).round(3).tolist()
    [[[0.8, 0.2]]]
    """
    out = np.empty((len(w), *f.shape[1:]), dtype=f.dtype) if out is None else out
    w, flat, mixed = np.asarray(w, dtype=f.dtype), f.reshape(len(f), -1), out.reshape(len(w), -1)
    step = max(1, CHUNK_BYTES // (len(f) * f.itemsize))
    for start in range(0, flat.shape[1], step):
        mixed[:, start : start + step] = w @ flat[:, start : start + step]
    return out


def geometric_labels(w: Array, f: Array, scale: str) -> Array:
    """The weighted geometric mean of predictions, renormalised: psi_i = softmax(sum_j w_ij z_j), z_j the logits of f_j.

    For several labels it is the sigmoid of the mean of their log odds, label by label. With dual variables
    (`core/duals.py`) it is this mean that leads linear models to the solution of all data: the duals add up differences
    of logits, and sum_j w_j u_j = 0 stays true only if the target is the mean of logits.

    Returned is (rows, samples, outputs) in the precision of `f`.

    Args:
        w: Trust (rows, agents).
        f: Predictions (agents, samples, outputs), probabilities.
        scale: classes (one of several) or labels (several), as in `core.duals.SCALES`.

    >>> f = np.array([[[0.9, 0.1]], [[0.5, 0.5]]])
    >>> geometric_labels(np.array([[0.5, 0.5]]), f, "classes").round(3).tolist()
    [[[0.75, 0.25]]]
    """
    to_logits, to_predictions = SCALES[scale]
    z = np.asarray(to_logits(f), dtype=f.dtype)
    return np.asarray(to_predictions(pseudo_labels(w, z)), dtype=f.dtype)


def majority_labels(f: Array) -> Array:
    """Hard pseudo-labels by one vote per agent, the same for all: one-hot argmax_c #{j : argmax f_j = c}.

    A tie goes to the lowest class, as in the authors' code. Returned is (samples, classes).

    Args:
        f: Predictions (agents, samples, classes).

    >>> f = np.array([[[0.9, 0.1]], [[0.4, 0.6]], [[0.3, 0.7]]])
    >>> majority_labels(f).tolist()
    [[0.0, 1.0]]
    """
    classes = f.shape[2]
    votes = np.zeros(f.shape[1:], dtype=f.dtype)
    for choice in f.argmax(axis=2):
        votes[np.arange(len(choice)), choice] += 1
    return np.asarray(np.eye(classes, dtype=f.dtype)[votes.argmax(axis=1)])
