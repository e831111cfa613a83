"""Labels for shared or private data from the predictions of all agents, as in other methods of sharing predictions.

`f` is (agents, samples, classes), rows of probabilities; returned is (samples, classes), the same for everyone, unless
stated otherwise. The vote of FedCT is in `core/labels.py`, the robust mean of Cronus in `core/robust.py`.
"""

import numpy as np
from numpy.typing import NDArray

from consilience.core.duals import softmax
from consilience.core.trust import chunks

Array = NDArray[np.floating]

SMALLEST = 1e-30
"""Smaller than any probability in single precision that is not rounded to zero."""


def mean_logits(f: Array, floor: float = SMALLEST) -> Array:
    """psi(x) = softmax(1/N sum_j z_j(x)), z_j agent j's logits (FedMD: Li and Wang, 2019; FedDF: Lin et al., 2020).

    z_j = log max(f_j, floor): a softmax ignores a constant that is added to a row, and log f_j is z_j up to one. A
    probability of zero has no logit; `floor` replaces it.

    >>> mean_logits(np.array([[[0.9, 0.1]], [[0.5, 0.5]]])).round(3).tolist()
    [[0.75, 0.25]]
    """
    means = [np.log(np.maximum(chunk, floor)).mean(axis=0, dtype=np.float64) for chunk in chunks(f)]
    return softmax(np.concatenate(means)).astype(f.dtype)


def sharpened_mean(f: Array, temperature: float) -> Array:
    """psi(x) = softmax(1/T 1/N sum_j f_j(x)), entropy-reduction aggregation (DS-FL: Itahara et al., 2021).

    The softmax is of probabilities, not of logits: a low temperature sharpens the mean, and T = 1 flattens it.

    >>> sharpened_mean(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]), 0.1).round(3).tolist()
    [[0.982, 0.018]]
    """
    mean = np.concatenate([chunk.mean(axis=0, dtype=np.float64) for chunk in chunks(f)])
    return softmax(mean / temperature).astype(f.dtype)


def class_means(f: Array, y: NDArray[np.integer], classes: int) -> Array:
    """F_c = the mean of f(x) over an agent's own samples of class c (FD: Jeong et al., 2018); (classes, classes).

    `f` are its predictions for its own samples (samples, classes), `y` their labels; NaN for a class it does not have.

    >>> class_means(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0, 0]), 2).tolist()
    [[0.5, 0.5], [nan, nan]]
    """
    means = np.full((classes, f.shape[1]), np.nan)
    for c in np.unique(y):
        means[c] = f[y == c].mean(axis=0, dtype=np.float64)
    return means.astype(np.float32)


def others_means(means: Array) -> Array:
    """T_ic = the mean of F_jc over the agents j other than i that have class c; one-hot where there is none.

    (agents, classes, classes) to the same (FD: Jeong et al., 2018, where everyone has every class: 1/(N-1) sum_j!=i).

    >>> others_means(np.array([[[0.8, 0.2], [0.5, 0.5]], [[0.6, 0.4], [np.nan, np.nan]]])).round(3).tolist()
    [[[0.6, 0.4], [0.0, 1.0]], [[0.8, 0.2], [0.5, 0.5]]]
    """
    known = ~np.isnan(means[:, :, :1])
    filled = np.where(known, means, 0)
    total, count = filled.sum(axis=0) - filled, known.sum(axis=0) - known
    own_labels = np.broadcast_to(np.eye(means.shape[1], dtype=means.dtype), means.shape)
    return np.where(count > 0, total / np.maximum(count, 1), own_labels).astype(means.dtype)
