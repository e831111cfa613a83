"""Trust learned by gradient descent: the knowledge coefficients of KT-pFL (Zhang et al., NeurIPS 2021).

`f` is (agents, samples, classes), rows of probabilities; `c` is (agents, agents), rows that sum to one.
"""

import numpy as np
from numpy.typing import NDArray

from consilience.core.trust import chunks

Array = NDArray[np.floating]

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
