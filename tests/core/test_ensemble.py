"""Collective prediction, written again with plain loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from consilience.core.ensemble import (
    collective_by_label,
    collective_by_sample,
    collective_prediction,
    collective_weights,
    filled,
    parts_by_class,
)


def random(agents: int, samples: int, outputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    w = draw.dirichlet(np.ones(agents), agents)
    return w, draw.dirichlet(np.ones(outputs), (agents, samples)).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, (4, 4), elements=st.floats(0.1, 1)))
def test_weights_are_the_consensus_that_trust_leads_to(raw: np.ndarray) -> None:
    w = raw / raw.sum(axis=1, keepdims=True)
    pi = collective_weights(w)
    np.testing.assert_allclose(pi @ w, pi, atol=1e-9)
    assert abs(pi.sum() - 1) < 1e-12 and (pi >= 0).all()
    said = np.random.default_rng(0).random(4)
    opinions = said.copy()
    for _ in range(400):
        opinions = w @ opinions
    np.testing.assert_allclose(opinions, pi @ said, atol=1e-6)


def test_without_a_consensus_weights_are_the_mean_over_what_agents_would_end_at() -> None:
    w = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(collective_weights(w), 0.25)
    np.testing.assert_allclose(collective_weights(np.array([[0.0, 1.0], [0.0, 1.0]])), [0, 1])


def test_an_agent_whom_nobody_trusts_does_not_count() -> None:
    w = np.array([[0.6, 0.4, 0], [0.3, 0.7, 0], [0.4, 0.4, 0.2]])
    assert collective_weights(w)[2] < 1e-12


def test_the_mixture_with_loops() -> None:
    w, f = random(3, 5, 4)
    pi = collective_weights(w)
    slow = np.zeros((5, 4))
    for x in range(5):
        for c in range(4):
            for j in range(3):
                slow[x, c] += pi[j] * f[j, x, c]
    np.testing.assert_allclose(collective_prediction(pi, f), slow, rtol=1e-6)


def test_parts_follow_what_a_sample_seems_to_be() -> None:
    w, f = random(5, 20, 3)
    pi = collective_weights(w)
    by_class = np.random.default_rng(1).dirichlet(np.ones(5), 3)
    parts = parts_by_class(pi, by_class, f)
    mixed = collective_by_sample(parts, f)
    for x in range(20):
        middle = []
        for c in range(3):
            below, total = 0.0, 0.0
            for value, weight in sorted((f[j, x, c], pi[j]) for j in range(5)):
                total += value * max(0.0, min(below + weight, 2 / 3) - max(below, 1 / 3))
                below += weight
            middle.append(total)
        seems = middle.index(max(middle))
        np.testing.assert_array_equal(parts[x], by_class[seems])
        np.testing.assert_allclose(mixed[x], sum(by_class[seems, j] * f[j, x] for j in range(5)), rtol=1e-5)


def test_labels_are_mixed_one_by_one() -> None:
    draw = np.random.default_rng(0)
    f, pi = draw.random((3, 4, 2)), draw.dirichlet(np.ones(3), 2)
    mixed = collective_by_label(pi, f)
    for x in range(4):
        for label in range(2):
            assert np.isclose(mixed[x, label], sum(pi[label, j] * f[j, x, label] for j in range(3)))


def test_a_class_that_no_sample_had_takes_the_weights_of_all() -> None:
    pi, by_class = np.array([0.2, 0.8]), np.array([[0.5, 0.5], [np.nan, np.nan]])
    np.testing.assert_array_equal(filled(pi, by_class), [[0.5, 0.5], [0.2, 0.8]])
