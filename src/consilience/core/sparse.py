"""Sparse exchange: who hears whom, sparse trust matrices, and when they still reach a consensus.

The theory of the paper needs positive trust matrices. Matrices with zeros reach a consensus as well, if they stay
connected: let all W(t) be row-stochastic with a positive diagonal and no positive entry below some eta > 0, and let
there be a B so that the union of the graphs {(i, j) : w_ij > 0} of every B rounds in a row is strongly connected. Then
W(t) ... W(1) converges to a matrix with equal rows (Tsitsiklis, 1984; Jadbabaie, Lin and Morse, 2003). A product of
N B such matrices is scrambling, so that the lemma of the paper applies to products instead of single rounds.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Indices = NDArray[np.integer]

MOST_DENSE = 200
"""Number of agents up to which sparse trust is also given as dense matrices."""


def heard_peers(
    own: int, agents: int, trusted: Indices, trust: Array, most: int, more: int, draw: np.random.Generator
) -> Indices:
    """H_i(t) = {i} u {the `most` peers that i trusts most of those it heard last} u {`more` others, drawn evenly}.

    `trusted` are the agents that i heard last, with its `trust` in them. If there are fewer than `most`, more are
    drawn, so that all agents hear equally many. Of equals, the first in the roster is taken. Sorted.

    >>> last, trust = np.array([0, 3, 5, 7]), np.array([0.4, 0.1, 0.3, 0.2])
    >>> heard_peers(0, 9, last, trust, 2, 0, np.random.default_rng(0)).tolist()
    [0, 5, 7]
    """
    size = min(most + more, agents - 1) + 1
    if size == agents:
        return np.arange(agents)
    peers = trusted != own
    best = trusted[peers][np.lexsort((trusted[peers], -trust[peers]))][:most]
    heard = {own, *best.tolist()}
    while len(heard) < size:
        heard.add(int(draw.integers(agents)))
    return np.array(sorted(heard))


@final
@dataclass(frozen=True)
class SparseTrust:
    """Trust matrices as the entries of heard peers: memory grows with agents x peers."""

    peers: Indices
    """(rounds, agents, heard): indices in the roster, the agent itself included."""
    weights: Array
    """(rounds, agents, heard): trust in them. Rows sum to one."""

    def __len__(self) -> int:
        return len(self.peers)

    @property
    def agents(self) -> int:
        """Number of agents in the roster."""
        return int(self.peers.shape[1])

    def dense(self) -> Array:
        """All matrices (rounds, agents, agents); empty (0, 0, 0) for more than `MOST_DENSE` agents."""
        if self.agents > MOST_DENSE:
            return np.zeros((0, 0, 0))
        full = np.zeros((len(self), self.agents, self.agents))
        rounds, rows = np.arange(len(self))[:, None, None], np.arange(self.agents)[None, :, None]
        full[rounds, rows, self.peers] = self.weights
        return full

    def received(self, t: int) -> Array:
        """sum_{i != j} w_ij in round t: what each agent receives from its peers."""
        others = self.peers[t] != np.arange(self.agents)[:, None]
        return self._sums(t, self.weights[t] * others)

    def own(self) -> Array:
        """w_ii in each round, (rounds, agents)."""
        return np.asarray((self.weights * (self.peers == np.arange(self.agents)[:, None])).sum(axis=2))

    def influence(self) -> Array:
        """How much each agent's first prediction counts in the last ones: the mean row of W(T) ... W(1)."""
        share = np.full(self.agents, 1 / self.agents)
        for t in reversed(range(len(self))):
            share = self._sums(t, self.weights[t] * share[:, None])
        return share

    def stationary(self, t: int, steps: int = 1000) -> Array:
        """pi with pi W = pi for the matrix of round t, by at most `steps` of the power method from equal shares."""
        share = np.full(self.agents, 1 / self.agents)
        for _ in range(steps):
            share, before = self._sums(t, self.weights[t] * share[:, None]), share
            if np.abs(share - before).sum() < 1e-12:
                break
        return share

    def mixed(self, x: Array) -> Array:
        """W(T) ... W(1) x for columns x (agents, columns): values after all rounds without training in between."""
        for t in range(len(self)):
            x = np.einsum("ik,ikc->ic", self.weights[t], x[self.peers[t]])
        return x

    def _sums(self, t: int, values: Array) -> Array:
        """The sum of `values` (agents, heard) by the agent that is heard."""
        return np.asarray(np.bincount(self.peers[t].ravel(), values.ravel(), minlength=self.agents))


def connected_within(trust: SparseTrust) -> int | None:
    """The smallest B so that the graphs of any B rounds in a row together are strongly connected; None without any."""
    for window in range(1, len(trust) + 1):
        starts = range(len(trust) - window + 1)
        if all(strongly_connected(*_edges(trust, range(start, start + window)), trust.agents) for start in starts):
            return window
    return None


def strongly_connected(rows: Indices, columns: Indices, agents: int) -> bool:
    """Whether from every agent every other can be reached over the edges rows -> columns.

    >>> strongly_connected(np.array([0, 1, 2]), np.array([1, 2, 0]), 3)
    True
    >>> strongly_connected(np.array([0, 1]), np.array([1, 0]), 3)
    False
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(rows)), (rows, columns)), (agents, agents))
    return bool(connected_components(edges, connection="strong", return_labels=False) == 1)


def _edges(trust: SparseTrust, rounds: range) -> tuple[Indices, Indices]:
    """Who trusts whom in any of these rounds: i -> j with w_ij > 0."""
    positive = trust.weights[rounds] > 0
    rows = np.broadcast_to(np.arange(trust.agents)[None, :, None], positive.shape)
    return rows[positive], trust.peers[rounds][positive]
