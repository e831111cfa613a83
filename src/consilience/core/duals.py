"""Dual variables of consensus optimisation: the accumulated disagreement of an agent with its pseudo-labels.

The paper's agents fit their own labels and the pseudo-labels together, and where these differ they stop halfway,
however many rounds follow. The alternating direction method of multipliers (ADMM; Boyd et al., 2011, section 7.1) adds
up how far each agent was off and shifts its pseudo-labels the other way, so that all agents come to agree on what fits
the labels of all. Nothing more is sent: if all agents have the same trust w_j and the target is the mean of their
logits (`core.labels.geometric_labels`), sum_j w_j u_j = 0, so that this mean is all that the method needs. Linear
models then reach the minimum of sum_j w_j L_j, which is that of all data where w_j is the share of agent j in all
samples. With the mean of probabilities the sum of the u_j grows, and agents stop near that minimum but not at it.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

LEAST = 1e-6
"""Smaller probabilities are raised to this before the logarithm."""


def centred_logs(f: Array) -> Array:
    """log f_c less its mean over classes, (..., classes): logits whose softmax is f.

    >>> centred_logs(np.array([0.8, 0.2])).round(3).tolist()
    [0.693, -0.693]
    """
    logs = np.log(np.maximum(f, LEAST))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def softmax(z: Array) -> Array:
    """exp z_c / sum_k exp z_k, (..., classes)."""
    from scipy.special import softmax  # loaded here, as a list of methods must be quick

    return np.asarray(softmax(z, axis=-1))


def log_odds(f: Array) -> Array:
    """log f - log(1 - f) of every entry: logits of several yes-or-no labels."""
    f = np.clip(f, LEAST, 1 - LEAST)
    return np.asarray(np.log(f) - np.log1p(-f))


def probabilities(z: Array) -> Array:
    """1 / (1 + exp(-z)) of every entry, the inverse of `log_odds`."""
    return np.asarray(1 / (1 + np.exp(-np.clip(z, -30, 30))))


def dual_update(u: Array, own: Array, psi: Array, step: float, scale: str) -> tuple[Array, Array]:
    """u <- u + step (z - t), and labels with the logits t - u, for an agent that predicts z and has the target t.

    z and t are `own` predictions and pseudo-labels (samples, outputs), as logits if the `scale` is classes (one of
    several) or labels (several), unchanged if it is values. An agent that predicted above its target gets a lower
    target next round.

    >>> dual_update(np.zeros(1), np.array([3.0]), np.array([1.0]), 1.0, "values")
    (array([2.]), array([-1.]))
    """
    forward, _ = SCALES[scale]
    u = np.asarray(u + step * (forward(own) - forward(psi)), dtype=psi.dtype)
    return u, shifted_labels(psi, u, scale)


def shifted_labels(psi: Array, u: Array, scale: str) -> Array:
    """Labels with the logits t - u, where t are those of `psi`.

    >>> shifted_labels(np.array([[0.5, 0.5]]), np.array([[-1.0, 1.0]]), "classes").round(3).tolist()
    [[0.881, 0.119]]
    """
    forward, back = SCALES[scale]
    return np.asarray(back(forward(psi) - u), dtype=psi.dtype)


def add_deviations(d: Array, f: Array, step: float, scale: str) -> Array:
    """d_j <- d_j + step (z_j - 1/N sum_k z_k), z_j the logits of f_j: how far each agent was from the mean so far.

    Args:
        d: The sum so far, (agents, samples, outputs).
        f: Predictions of this round, (agents, samples, outputs).
        step: Step of the dual variables.
        scale: classes or labels.
    """
    z = np.asarray(SCALES[scale][0](f), dtype=d.dtype)
    return np.asarray(d + step * (z - z.mean(axis=0)), dtype=d.dtype)


def duals_in_hindsight(d: Array, w: Array) -> Array:
    """u_i = d_i - sum_j w_ij d_j: the dual variables, had the trust of all rounds been `w`.

    While trust stays the same these are the sums of `dual_update` with the mean of logits. If it changes, what a peer
    said that is not trusted any more leaves nothing behind, and sum_i v_i u_i = 0 for all rows equal to v.

    Args:
        d: `add_deviations` of all rounds, (agents, samples, outputs).
        w: Trust of this round, (agents, agents).

    >>> duals_in_hindsight(np.array([[[1.0]], [[3.0]]]), np.array([[0.5, 0.5], [0.0, 1.0]])).ravel().tolist()
    [-1.0, 0.0]
    """
    mixed = np.asarray(w, dtype=d.dtype) @ d.reshape(len(d), -1)
    return np.asarray(d - mixed.reshape(d.shape))


SCALES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "classes": (centred_logs, softmax),
    "labels": (log_odds, probabilities),
    "values": (np.asarray, np.asarray),
}
"""Predictions to logits and back."""
