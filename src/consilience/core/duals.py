"""What an agent did not get its way with so far: the dual variables of consensus optimisation.

The paper's agents fit their own labels and the pseudo-labels together, and where these differ they stop halfway,
however many rounds go by. The alternating direction method of multipliers (ADMM; Boyd et al., 2011, section 7.1)
remembers how far each agent was off and moves its pseudo-labels to the other side by as much, so that all come to agree
on what fits the labels of all. Nothing more is sent: where all have the same trust w_j, sum_j w_j u_j = 0, so that the
mean of what agents say is all that the method needs.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

LEAST = 1e-6
"""The least probability whose logarithm is taken."""


def centred_logs(f: Array) -> Array:
    """log f_c less its mean over classes, (..., classes): logits whose softmax is f.

    >>> centred_logs(np.array([0.8, 0.2])).round(3).tolist()
    [0.693, -0.693]
    """
    logs = np.log(np.maximum(f, LEAST))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def softmax(z: Array) -> Array:
    """exp z_c / sum_k exp z_k, (..., classes)."""
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def log_odds(f: Array) -> Array:
    """log f - log(1 - f) of every entry by itself: for several yes-or-no labels a sample."""
    f = np.clip(f, LEAST, 1 - LEAST)
    return np.asarray(np.log(f) - np.log1p(-f))


def probabilities(z: Array) -> Array:
    """1 / (1 + exp(-z)) of every entry: what has these `log_odds`."""
    return np.asarray(1 / (1 + np.exp(-np.clip(z, -30, 30))))


def as_they_are(z: Array) -> Array:
    """Values need no other scale."""
    return z


SCALES = {"classes": (centred_logs, softmax), "labels": (log_odds, probabilities), "values": (as_they_are, as_they_are)}
"""What predictions are added and subtracted as, and the way back: of one class of several, several labels, values."""


def dual_update(u: Array, own: Array, psi: Array, step: float, scale: str) -> tuple[Array, Array]:
    """u <- u + step (z - t), and the labels of which t - u are the logits, for an agent that said z and is told t.

    z and t are `own` predictions and pseudo-labels (samples, outputs) as logits, or as values: `SCALES`. Whoever was
    above t is asked for less than t, until what it says is t.

    >>> insisted(np.zeros(1), np.array([3.0]), np.array([1.0]), 1.0, "values")
    (array([2.]), array([-1.]))
    """
    there, back = SCALES[scale]
    t = there(psi)
    u = u + step * (there(own) - t)
    return np.asarray(u, dtype=psi.dtype), np.asarray(back(t - u), dtype=psi.dtype)
