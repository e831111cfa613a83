"""Trust: how far each agent trusts each peer, from predictions on the shared data alone.

Every function returns weights whose rows sum to one. `f` is always (agents, samples, outputs).
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

OFFSET = 1.0
FLOOR = 1e-3
CHUNK_BYTES = 4 * 2**20
"""Predictions are processed in chunks of this size, so that temporaries are small and stay in the cache."""


def entropy(f: Array) -> Array:
    """H(f(x)) = - sum_c f_c log f_c, in nats, with 0 log 0 = 0. The last axis is the classes.

    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(4).tolist()
    [0.6931, 0.0]
    """
    log = np.log(f, where=f > 0, out=np.zeros_like(f))
    log *= f
    total = log.sum(axis=-1)
    return np.asarray(np.maximum(-total, 0))


def confidence(f: Array, offset: float = OFFSET, floor: float = FLOOR) -> Array:
    """beta(x) = 1 / max(H(f(x)) + offset, floor), how much a sample counts for an agent.

    The paper prints 1 / H (`offset=0`); the authors' code uses 1 / (H + 1) (`offset=1`, our default: 1 / H is
    unbounded, so that a few saturated samples would dominate a row; see docs/reference/notation.md).
    """
    return np.asarray(1 / np.maximum(entropy(f) + offset, floor))


def entropy_trust(f: Array, offset: float = OFFSET, floor: float = FLOOR) -> Array:
    """Entropy-weighted cosine trust (label `w-calculation-1`): w_ij = gamma_ij / sum_j gamma_ij with

    gamma_ij = 1/n* sum_x beta_i(x) <f_i(x), f_j(x)> / (|f_i(x)| |f_j(x)|).

    Args:
        f: Predictions (agents, samples, outputs).
        offset: Added to the entropy in beta: 1 as in the authors' code, 0 as in the paper.
        floor: Smallest divisor in beta.

    >>> f = np.array([[[0.9, 0.1]], [[0.8, 0.2]], [[0.1, 0.9]]])
    >>> entropy_trust(f).round(2).tolist()
    [[0.45, 0.45, 0.1], [0.42, 0.43, 0.15], [0.14, 0.22, 0.64]]
    """
    gamma = np.zeros((len(f), len(f)))
    for chunk in chunks(f):
        direction = _directions(chunk)
        weighted = direction * confidence(chunk, offset, floor)[..., None]
        gamma += flat(weighted) @ flat(direction).T
    return _normalise(gamma)


def cosine_trust(f: Array) -> Array:
    """Plain cosine trust, the matrix Phi: `entropy_trust` with beta = 1.

    Args:
        f: Predictions (agents, samples, outputs).
    """
    gamma = np.zeros((len(f), len(f)))
    for chunk in chunks(f):
        direction = flat(_directions(chunk))
        gamma += direction @ direction.T
    return _normalise(gamma)


def uniform_trust(agents: int) -> Array:
    """Naive trust: w_ij = 1/N."""
    return np.full((agents, agents), 1 / agents)


def gaussian_trust(f: Array, scale: Array) -> Array:
    """Trust for regression: w_ij proportional to 1/n* sum_x exp(-|f_i(x) - f_j(x)|^2 / (2 m s_i^2)).

    A peer within the noise of an agent's own labels agrees with it. s_i and the squared distance are means over the m
    outputs, so that a duplicated output changes nothing. The paper gives no formula for regression; this one behaves as
    its appendix A.1 describes.

    Args:
        f: Predictions (agents, samples, outputs).
        scale: s_i, the noise in agent i's own labels, (agents,).
    """
    gamma = np.empty((len(f), len(f)))
    for i, s in enumerate(scale):
        distance = np.square(f - f[i]).mean(axis=2, dtype=np.float64)
        gamma[i] = np.exp(-distance / (2 * s * s)).mean(axis=1)
    return _normalise(gamma)


def metropolis(phi: Array, pi: Array) -> Array:
    """The trust matrix whose consensus distribution is `pi`, made from any transition matrix `phi`:

    w_xy = phi_xy min(1, pi_y phi_yx / (pi_x phi_xy)) for y != x (label `eq:w-ideal`), w_xx = the rest of the row.

    For a symmetric `phi` this is the Metropolis chain of the paper's example (label `P-and-Phi`).
    Works on arrays of `fractions.Fraction` too.

    Args:
        phi: Transition matrix (agents, agents).
        pi: Consensus distribution (agents,).

    >>> metropolis(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0.8, 0.2])).tolist()
    [[0.875, 0.125], [0.5, 0.5]]
    """
    w = np.minimum(phi, phi.T * pi[None, :] / pi[:, None])
    diagonal = np.arange(len(pi))
    w[diagonal, diagonal] = 0
    w[diagonal, diagonal] = 1 - w.sum(axis=1)
    return w


def ideal_trust(f: Array, pi: Array) -> Array:
    """The trust one would choose if the consensus distribution `pi` were known: `metropolis` on Phi.

    Args:
        f: Predictions (agents, samples, outputs).
        pi: Consensus distribution (agents,).
    """
    return metropolis(cosine_trust(f), pi)


def restrict(w: Array, heard: NDArray[np.bool_]) -> Array:
    """Trust in the agents that were `heard`: the other columns are dropped and each row is normalised again.

    A row without trust in any of them becomes uniform.
    """
    columns = w[:, heard]
    total = columns.sum(axis=1, keepdims=True)
    even = np.full_like(columns, 1 / columns.shape[1])
    return np.asarray(np.divide(columns, total, out=even, where=total > 0))


def chunks(f: Array) -> Iterator[Array]:
    """Views of `f` along the samples."""
    per_sample = f.shape[0] * f.shape[2] * f.itemsize
    step = max(1, CHUNK_BYTES // per_sample)
    for start in range(0, f.shape[1], step):
        yield f[:, start : start + step]


def _directions(f: Array) -> Array:
    """f(x) / |f(x)|, a new array."""
    norm = np.sqrt(np.einsum("isc,isc->is", f, f))
    return np.asarray(f / norm[..., None])


def flat(f: Array) -> Array:
    return f.reshape(len(f), -1)


def _normalise(gamma: Array) -> Array:
    return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))
