"""Dual variables of consensus optimisation: the accumulated disagreement of an agent with its pseudo-labels.

The paper's agents fit their own labels and the pseudo-labels together, and where these differ they stop halfway,
however many rounds follow. The alternating direction method of multipliers (ADMM; Boyd et al., 2011, section 7.1) adds
up how far each agent was off and shifts its pseudo-labels the other way, so that all agents come to agree on what fits
the labels of all. Nothing more is sent: if all agents have the same trust w_j, sum_j w_j u_j = 0, so that the mean of
the predictions is all that the method needs.
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
    forward, back = SCALES[scale]
    t = forward(psi)
    u = u + step * (forward(own) - t)
    return np.asarray(u, dtype=psi.dtype), np.asarray(back(t - u), dtype=psi.dtype)


SCALES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "classes": (centred_logs, softmax),
    "labels": (log_odds, probabilities),
    "values": (np.asarray, np.asarray),
}
"""Predictions to logits and back."""
