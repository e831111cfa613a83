"""The theory of the paper as checked code: does the chain of trust matrices reach a consensus, and whose?

`w` is one trust matrix (agents, agents), `ws` the matrices of all rounds (rounds, agents, agents), first
round first. Functions on `ws` give one answer per round, so that a finished run can be examined.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Flags = NDArray[np.bool_]

MANY = 300
"""Number of agents above which equations are solved iteratively, and not all pairs of agents are compared."""


def row_difference(w: Array) -> float:
    """delta(W) = max_j max_{i1,i2} |w_{i1 j} - w_{i2 j}|; zero when all rows are the same.

    Args:
        w: Trust matrix (agents, agents).

    >>> row_difference(np.array([[0.5, 0.5], [0.2, 0.8]])).__round__(3)
    0.3
    """
    return float((w.max(axis=0) - w.min(axis=0)).max())


def scrambling(w: Array) -> float:
    """lambda(W) = 1 - min_{i1,i2} sum_j min(w_{i1 j}, w_{i2 j}); W is scrambling when it is below 1.

    One multiplication by W shrinks every difference between agents at least by this factor.

    Args:
        w: Trust matrix (agents, agents).
    """
    overlap = min(float(np.minimum(row, w).sum(axis=1).min()) for row in w)
    return max(0.0, 1 - overlap)


def contraction_bound(ws: Array) -> Array:
    """prod_{i<=t} lambda(W^(i)) for each round t: the bound of the lemma on delta(W^(t) ... W^(1)).

    Args:
        ws: Trust matrices (rounds, agents, agents), first round first.
    """
    return np.cumprod([scrambling(w) for w in ws])


def products(ws: Array) -> Array:
    """W^(t) W^(t-1) ... W^(1) for each round t (label `eq-MK-update`): row i is who agent i's prediction is made of."""
    result = np.empty_like(ws)
    total = np.eye(ws.shape[1])
    for t, w in enumerate(ws):
        total = w @ total
        result[t] = total
    return result


def influence(ws: Array) -> Array:
    """How much each agent's first prediction counts in the last ones: the mean row of W^(T) ... W^(1).

    At consensus all rows are the same and this is the consensus distribution pi.

    Args:
        ws: Trust matrices (rounds, agents, agents), first round first.

    >>> influence(np.array([[[0.75, 0.25], [0.25, 0.75]]])).tolist()
    [0.5, 0.5]
    """
    share = np.full(ws.shape[1], 1 / ws.shape[1])
    for w in ws[::-1]:
        share = share @ w
    return np.asarray(share)


def stationary(w: Array) -> Array:
    """pi with pi W = pi and sum pi = 1: the influence of each agent if W never changed.

    Args:
        w: Trust matrix (agents, agents).

    >>> stationary(np.array([[0.9, 0.1], [0.3, 0.7]])).round(3).tolist()
    [0.75, 0.25]
    """
    n = len(w)
    if n > MANY:
        return _by_steps(w)
    system = np.vstack([w.T - np.eye(n), np.ones(n)])
    pi = np.linalg.lstsq(system, np.r_[np.zeros(n), 1.0], rcond=None)[0]
    pi = np.maximum(pi, 0)
    return np.asarray(pi / pi.sum())


def _by_steps(w: Array, steps: int = 1000) -> Array:
    """The same by the power method from equal shares: for many agents much faster."""
    share = np.full(len(w), 1 / len(w))
    for _ in range(steps):
        share, before = share @ w, share
        if np.abs(share - before).sum() < 1e-12:
            break
    return np.asarray(share / share.sum())


def self_confidence(ws: Array) -> Array:
    """tr(W^(t)) for each round: the sum of the agents' trust in themselves.

    Claim 2 (label `behavior-of-W`) says that it never rises and ends at 1. It does end there; that it never rises is
    true of typical predictions but not of all (docs/reference/notation.md has the counterexample).

    Args:
        ws: Trust matrices (rounds, agents, agents), first round first.
    """
    return np.asarray(np.trace(ws, axis1=1, axis2=2))


def trust_received(w: Array) -> Array:
    """sum_{i != j} w_ij for each agent j: the column sums without the diagonal."""
    return np.asarray(w.sum(axis=0) - np.diagonal(w))


def is_stochastic(w: Array, atol: float = 1e-6) -> bool:
    """Row-stochastic and positive, the assumption of every theorem."""
    return bool((w > 0).all() and np.allclose(w.sum(axis=1), 1, atol=atol))


@dataclass(frozen=True)
class LowestImportance:
    """The proposition on one low-quality agent b (label `claim-arbitrary low importance on b`), round by round."""

    least_trusted: Flags
    """(i) w_jb = min_i w_ji for all j != b."""
    lowest_sum: Flags
    """(ii) sum_j w_jb < min_{i != b} sum_j w_ji."""

    @property
    def holds(self) -> Flags:
        """Both conditions. Rounds in which they hold keep them in every product, so b matters least at consensus."""
        return self.least_trusted & self.lowest_sum


def lowest_importance(ws: Array, b: int) -> LowestImportance:
    """The two conditions of the proposition on one low-quality agent `b`, for each round."""
    others = np.arange(ws.shape[1]) != b
    sums = ws.sum(axis=1)
    return LowestImportance(
        least_trusted=(ws[:, others, b] <= ws[:, others].min(axis=2)).all(axis=1),
        lowest_sum=sums[:, b] < sums[:, others].min(axis=1),
    )


@dataclass(frozen=True)
class LowerImportance:
    """The proposition on several low-quality agents (label `prop-many-low-quality-nodes`), round by round."""

    lower_sums: Flags
    """(i) min_{r in R} sum_i w_ir > max_{b in B} sum_i w_ib."""
    trust_gap: Flags
    """(ii) sum_{n in R} (w_nr - w_nb) > w_bb - w_br for all r in R, b in B."""
    less_trusted: Flags
    """(iii) w_nr >= w_nb for all r in R, b in B and n != b."""

    @property
    def holds(self) -> Flags:
        """All three conditions. They, too, are kept by products."""
        return self.lower_sums & self.trust_gap & self.less_trusted


def lower_importance(ws: Array, low_quality: list[int]) -> LowerImportance:
    """The three conditions of the proposition on the low-quality agents, for each round."""
    low = np.asarray(low_quality, dtype=int)
    regular = np.setdiff1d(np.arange(ws.shape[1]), low)
    sums = ws.sum(axis=1)
    by_regular = ws[:, regular].sum(axis=1)
    gap = by_regular[:, regular][:, :, None] - by_regular[:, low][:, None, :]
    own = ws[:, low, low][:, None, :] - ws[:, low][:, :, regular].transpose(0, 2, 1)
    least_regular = ws[:, :, regular].min(axis=2)[:, :, None]
    less = least_regular >= ws[:, :, low]
    less[:, low, np.arange(len(low))] = True
    return LowerImportance(
        lower_sums=sums[:, regular].min(axis=1) > sums[:, low].max(axis=1),
        trust_gap=(gap > own).all(axis=(1, 2)),
        less_trusted=less.all(axis=(1, 2)),
    )
