"""Pseudo-labels and weights of other methods that share predictions: FedMD, DS-FL, FedDF, FD and KT-pFL."""

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


FLOOR = 1e-3
"""Smaller probabilities are raised to this before the logarithm, such as zeros of classes that a model never saw."""


def knowledge_gradient(c: Array, f: Array, rho: float) -> Array:
    """dJ/dc_ij of J(c) = sum_i mean_x KL(psi_i(x) || f_i(x)) + rho |c - 1/N|^2 with psi_i = sum_j c_ij f_j.

    It is mean_x sum_k f_jk(x) log(psi_ik(x) / f_ik(x)) + 2 rho (c_ij - 1/N), up to a constant of each row, on which
    `nearest_weights` does not depend. (agents, agents).
    """
    agents, samples, _ = f.shape
    gradient = np.zeros((agents, agents))
    for chunk in chunks(f):
        probabilities = np.maximum(chunk, FLOOR).astype(np.float64)
        for i in range(agents):
            psi = np.tensordot(c[i], probabilities, axes=1)
            gradient[i] += np.tensordot(probabilities, np.log(psi / probabilities[i]), axes=2)
    return np.asarray(gradient / samples + 2 * rho * (c - 1 / agents))


def nearest_weights(rows: Array) -> Array:
    """The point of the simplex nearest to each row: max(v - theta, 0), theta such that it sums to one.

    Held et al., Validation of subgradient optimization, 1974.

    >>> nearest_weights(np.array([[0.5, 0.7], [2.0, 0.0]])).round(2).tolist()
    [[0.4, 0.6], [1.0, 0.0]]
    """
    falling = -np.sort(-rows, axis=1)
    theta = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    last = (falling > theta).sum(axis=1) - 1
    return np.asarray(np.maximum(rows - theta[np.arange(len(rows)), last][:, None], 0))


def knowledge_step(c: Array, f: Array, step: float, rho: float) -> Array:
    """c <- the weights nearest to c - step dJ/dc.

    >>> f = np.array([[[0.9, 0.1]], [[0.8, 0.2]], [[0.1, 0.9]]])
    >>> knowledge_step(np.full((3, 3), 1 / 3), f, 0.2, 0.7).round(2).tolist()
    [[0.44, 0.41, 0.15], [0.39, 0.37, 0.24], [0.18, 0.23, 0.59]]
    """
    return nearest_weights(c - step * knowledge_gradient(c, f, rho))
