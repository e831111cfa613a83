"""Sparse exchange: whom agents hear, sparse trust against whole matrices, and when graphs stay connected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilience.core import consensus
from consilience.core.sparse import MOST_DENSE, SparseTrust, connected_within, heard_peers, strongly_connected

NOBODY = np.zeros(0, dtype=np.int64), np.zeros(0)


def slowly(own: int, agents: int, trusted: list[int], trust: list[float], most: int, more: int) -> set[int]:
    """The agents that must be heard: the agent itself, and the best that are known."""
    known = sorted((-w, j) for j, w in zip(trusted, trust, strict=True) if j != own)
    return {own} | {j for _, j in known[:most]}


@given(st.integers(2, 30), st.integers(1, 8), st.integers(1, 5), st.integers(0, 10**6))
def test_an_agent_hears_itself_whom_it_trusts_most_and_others(agents: int, most: int, more: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    own = int(draw.integers(agents))
    last = heard_peers(own, agents, *NOBODY, most, more, draw)
    trust = draw.integers(1, 4, len(last)) / 10
    heard = heard_peers(own, agents, last, trust, most, more, draw)
    assert len(heard) == min(most + more, agents - 1) + 1 == len(set(heard.tolist()))
    assert heard.tolist() == sorted(heard) and heard.min() >= 0 and heard.max() < agents
    assert slowly(own, agents, last.tolist(), trust.tolist(), most, more) <= set(heard.tolist()) | set(
        last.tolist() if len(heard) == agents else []
    )


def test_random_peers_reach_everyone_in_the_end() -> None:
    heard = [heard_peers(0, 10, *NOBODY, 1, 1, np.random.default_rng(seed)) for seed in range(200)]
    counts = np.bincount(np.concatenate(heard), minlength=10)
    assert counts[0] == 200
    assert counts[1:].min() > 20


def sparse(rounds: int = 3, agents: int = 7, heard: int = 4, seed: int = 0) -> SparseTrust:
    draw = np.random.default_rng(seed)
    peers = np.stack(
        [[heard_peers(i, agents, *NOBODY, heard - 2, 1, draw) for i in range(agents)] for _ in range(rounds)]
    )
    weights = draw.random(peers.shape) + 0.1
    return SparseTrust(peers, weights / weights.sum(axis=2, keepdims=True))


def test_sparse_trust_says_what_whole_matrices_say() -> None:
    trust = sparse()
    ws = trust.dense()
    slow = np.zeros((3, 7, 7))
    for t in range(3):
        for i in range(7):
            for place, j in enumerate(trust.peers[t, i]):
                slow[t, i, j] = trust.weights[t, i, place]
    assert np.array_equal(ws, slow)
    for t in range(3):
        np.testing.assert_allclose(trust.received(t), consensus.trust_received(ws[t]))
        np.testing.assert_allclose(trust.stationary(t), consensus.stationary(ws[t]), atol=1e-8)
    np.testing.assert_allclose(trust.own().sum(axis=1), consensus.self_confidence(ws))
    np.testing.assert_allclose(trust.influence(), consensus.influence(ws))
    np.testing.assert_allclose(trust.influence(), consensus.products(ws)[-1].mean(axis=0))
    x = np.random.default_rng(1).random((7, 2))
    np.testing.assert_allclose(trust.mixed(x), consensus.products(ws)[-1] @ x)


def test_many_agents_have_no_whole_matrices() -> None:
    many = MOST_DENSE + 1
    trust = SparseTrust(np.arange(many)[None, :, None], np.ones((1, many, 1)))
    assert trust.dense().shape == (0, 0, 0)


def ring(agents: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    own = np.arange(agents)
    return np.stack([own, (own + step) % agents], axis=1), np.full((agents, 2), 0.5)


@pytest.mark.parametrize(("steps", "window"), [((1, 1), 1), ((2, 3, 2, 3), 2), ((2, 2), None), ((2, 2, 3), 3)])
def test_the_window_in_which_graphs_are_connected(steps: tuple[int, ...], window: int | None) -> None:
    rings = [ring(6, step) for step in steps]
    trust = SparseTrust(np.stack([peers for peers, _ in rings]), np.stack([w for _, w in rings]))
    assert connected_within(trust) == window


def test_trust_of_zero_connects_nobody() -> None:
    peers, weights = ring(4, 1)
    weights[2] = [1.0, 0.0]
    assert connected_within(SparseTrust(peers[None], weights[None])) is None


@given(st.integers(2, 8), st.integers(0, 20), st.integers(0, 10**6))
def test_strong_connection_is_that_of_all_paths(agents: int, edges: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    rows, columns = draw.integers(0, agents, (2, edges))
    reach = np.eye(agents, dtype=bool)
    reach[rows, columns] = True
    for k in range(agents):
        for i in range(agents):
            for j in range(agents):
                reach[i, j] |= reach[i, k] and reach[k, j]
    assert strongly_connected(rows, columns, agents) == reach.all()


@given(st.integers(0, 10**6))
def test_sparse_trust_that_stays_connected_leads_to_a_consensus(seed: int) -> None:
    """The condition of the module: differences between agents vanish if any B rounds are strongly connected."""
    trust = sparse(rounds=60, agents=9, heard=3, seed=seed)
    if connected_within(trust) is not None:
        assert np.ptp(trust.mixed(np.random.default_rng(0).random((9, 4))), axis=0).max() < 1e-3
