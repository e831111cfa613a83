"""Trust that remembers: the lowest trust of all rounds, a gate that closes for good, and samples as weights.

Trust of one round says who agrees now. An agent with wrong labels that insists (`core/duals.py`), or an attacker that
waits, disagrees in some rounds and less in others; what it once showed should count for good.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Flags = NDArray[np.bool_]

LEAST = 0.01
"""Smallest median agreement by which an agent can be judged."""
NOTICED = 0.1
"""Deviations of logits up to this are none."""


def lowest_trust(before: Array, w: Array) -> Array:
    """m_ij <- min(m_ij, w_ij), over rounds; rows are not normalised. NaN where nothing is known yet.

    >>> lowest_trust(np.array([[0.5, np.nan]]), np.array([[0.6, 0.4]])).tolist()
    [[0.5, 0.4]]
    """
    return np.asarray(np.fmin(before, w))


def mean_agreement(rho: Array, v: Array) -> Array:
    """c_j = sum_{k != j} v_k rho_jk / sum_{k != j} v_k: how far agent j agrees with all others, (agents,).

    Two honest agents that know different classes may not agree with each other; with all others together each of them
    does, and an agent with wrong labels does not. 0 where there are no others.

    Args:
        rho: Correlations of predictions (agents, agents), `core.stratified.correlations`.
        v: Voices (agents,), `core.stratified.voices`: agents that say the same share one.

    >>> mean_agreement(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]]), np.ones(3)).round(2).tolist()
    [0.25, 0.35, 0.1]
    """
    others = v * (1 - np.eye(len(rho)))
    total = others.sum(axis=1)
    return np.asarray(np.divide((others * rho).sum(axis=1), total, out=np.zeros_like(total), where=total > 0))


def is_far_off(c: Array, threshold: float) -> Flags:
    """c_j < threshold x median of c. Nobody is, if the median is not above 0.01: agents that agree on nothing yet.

    >>> is_far_off(np.array([0.5, 0.6, 0.1]), 0.3).tolist()
    [False, False, True]
    """
    middle = float(np.median(c))
    return np.asarray((c < threshold * middle) & (middle > LEAST))


def farthest(c: Array, far_off: Flags, room: int) -> Flags:
    """Of those that are far off at most the `room` agents with the smallest c.

    An agent with wrong labels also lowers the agreement of others. Where there are few, it must not take them along.

    >>> farthest(np.array([0.5, -0.1, 0.6, 0.1]), np.array([False, True, False, True]), 1).tolist()
    [False, True, False, False]
    """
    rank = np.argsort(np.argsort(np.where(far_off, c, np.inf), kind="stable"), kind="stable")
    return np.asarray(far_off & (rank < room))


def deviation(z: Array) -> Array:
    """e_j = sqrt(mean over x, c of (z_jc(x) - median_k z_kc(x))^2), for logits z (agents, samples, classes).

    >>> deviation(np.array([[[0.0]], [[1.0]], [[4.0]]])).tolist()
    [1.0, 0.0, 3.0]
    """
    return np.asarray(np.sqrt(np.square(z - np.median(z, axis=0)).mean(axis=(1, 2))))


def insists(z: Array, most: float) -> Flags:
    """e_j > most x median of e, and e_j > 0.1 and more than half of how large the median of logits is.

    Agents that learn from pseudo-labels come near to each other; one that says the same whatever it is asked for does
    not, and in the mean of logits a sure lie would count more than all honest doubts.

    >>> insists(np.array([[[0.0, 1.0]], [[0.1, 1.0]], [[0.0, 1.1]], [[9.0, -9.0]]]), 3).tolist()
    [False, False, False, True]
    """
    e = deviation(z)
    size = float(np.sqrt(np.square(np.median(z, axis=0)).mean()))
    return np.asarray((e > most * np.median(e)) & (e > max(size / 2, NOTICED)))


def normalised_rows(w: Array) -> Array:
    """w_ij / sum_j w_ij; a row of zeros becomes uniform.

    >>> normalised_rows(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    total = w.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(w, total, out=np.full_like(w, 1 / w.shape[1]), where=total > 0))


def sample_weights(samples: Array, most: float) -> Array:
    """n_j, at most `most` times the median of all n_j, as shares of their sum; NaN counts as the median.

    An agent that declares too many samples gains at most the factor `most` over the median one.

    >>> sample_weights(np.array([100.0, 100.0, 900.0]), 3).tolist()
    [0.2, 0.2, 0.6]
    """
    known = samples[~np.isnan(samples)]
    middle = float(np.median(known)) if len(known) else 1.0
    n = np.minimum(np.where(np.isnan(samples), middle, samples), most * middle)
    return np.asarray(n / n.sum())
