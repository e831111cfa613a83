"""Collective prediction: the mean of all agents' predictions, weighted by trust.

`f` is (agents, samples, outputs), the predictions of all agents for new samples; `w` is (agents, agents), the last
trust matrix, or (classes, agents, agents) where trust differs by class.
"""

import numpy as np
from numpy.typing import NDArray

from consilience.core.stratified import middle_mean

Array = NDArray[np.floating]
_FOREVER = 1 << 20
"""Number of exchanges after which nothing changes: twenty squarings."""


def collective_weights(w: Array) -> Array:
    """pi_j = lim_k 1/N sum_i (W^k)_ij: how much each agent counts after endless exchanges under W, (agents,).

    If W leads to a consensus this is the consensus distribution, pi W = pi, and all agents would end at sum_j pi_j f_j.
    If groups of agents trust only themselves, it is the mean over the agents' ends.

    >>> collective_weights(np.array([[0.9, 0.1], [0.3, 0.7]])).round(3).tolist()
    [0.75, 0.25]
    >>> collective_weights(np.eye(2)).tolist()
    [0.5, 0.5]
    """
    pi = np.linalg.matrix_power(np.asarray(w, dtype=np.float64), _FOREVER).mean(axis=0)
    return np.asarray(pi / pi.sum())


def collective_prediction(pi: Array, f: Array) -> Array:
    """F(x) = sum_j pi_j f_j(x), (samples, outputs).

    >>> collective_prediction(np.array([0.75, 0.25]), np.array([[[0.8, 0.2]], [[0.4, 0.6]]])).round(2).tolist()
    [[0.7, 0.3]]
    """
    return np.asarray(np.tensordot(pi.astype(f.dtype), f, axes=1))


def filled(pi: Array, pi_by_class: Array) -> Array:
    """`pi_by_class` (classes, agents) with `pi` (agents,) instead of rows with NaN, whose class no sample had.

    >>> filled(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [np.nan, np.nan]])).tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    """
    return np.where(np.isnan(pi_by_class.sum(axis=1, keepdims=True)), pi, pi_by_class)


def parts_by_class(pi: Array, pi_by_class: Array, f: Array) -> Array:
    """p_j(x) = pi_j[c(x)], (samples, agents), where c(x), what a sample seems to be, is the argmax of r(x).

    r(x) is the middle mean over agents of f_j(x), weighted by `pi` (agents,), so that agents with little trust cannot
    choose the class. `pi_by_class` is (classes, agents).

    >>> f = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.4, 0.6]]])
    >>> parts_by_class(np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.4, 0.6]]), f).tolist()
    [[0.9, 0.1], [0.4, 0.6]]
    """
    return np.asarray(pi_by_class[middle_mean(pi, f).argmax(axis=1)])


def collective_by_sample(parts: Array, f: Array) -> Array:
    """F(x) = sum_j p_j(x) f_j(x) with `parts` p (samples, agents); returned is (samples, outputs)."""
    return np.asarray(np.einsum("sj,jso->so", parts.astype(f.dtype), f))


def collective_by_label(pi_by_label: Array, f: Array) -> Array:
    """F(x)[l] = sum_j pi_j[l] f_j(x)[l] for several yes-or-no labels, with `pi_by_label` (labels, agents)."""
    return np.asarray(np.einsum("lj,jsl->sl", pi_by_label.astype(f.dtype), f))
