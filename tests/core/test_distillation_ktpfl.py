"""The weights of KT-pFL, with plain loops and by what descent must do."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from consilience.core import distillation as knowledge
from consilience.core import trust


def words(agents: int = 4, samples: int = 6, classes: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(classes) * 2, (agents, samples))


def objective(c, f, rho) -> float:
    agents, samples, classes = f.shape
    total = 0.0
    for i in range(agents):
        for s in range(samples):
            for k in range(classes):
                psi = sum(c[i, j] * max(f[j, s, k], knowledge.FLOOR) for j in range(agents))
                total += psi * math.log(psi / max(f[i, s, k], knowledge.FLOOR)) / samples
        total += rho * sum((c[i, j] - 1 / agents) ** 2 for j in range(agents))
    return total


def weights(agents: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(agents), agents)


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_the_gradient_is_that_of_the_objective(rho):
    """By differences; what is the same in a whole row does not count."""
    f, c, h = words(), weights(), 1e-5
    found = knowledge.knowledge_gradient(c, f, rho)
    by_differences = np.empty_like(c)
    for i, j in product(range(4), range(4)):
        up, down = c.copy(), c.copy()
        up[i, j] += h
        down[i, j] -= h
        by_differences[i, j] = (objective(up, f, rho) - objective(down, f, rho)) / (2 * h)
    difference = by_differences - found
    np.testing.assert_allclose(difference, np.tile(difference[:, :1], 4), atol=1e-6)


def test_it_is_the_same_in_parts(monkeypatch):
    f, c = words(samples=50), weights()
    whole = knowledge.knowledge_gradient(c, f, 0.3)
    monkeypatch.setattr(trust, "CHUNK_BYTES", 300)
    np.testing.assert_allclose(knowledge.knowledge_gradient(c, f, 0.3), whole)


@given(some.lists(some.floats(-3, 3), min_size=1, max_size=6))
def test_the_nearest_weights_are_weights_and_none_are_nearer(values):
    v = np.array([values])
    p = knowledge.nearest_weights(v)
    assert (p >= 0).all() and p.sum() == pytest.approx(1)
    for q in np.random.default_rng(0).dirichlet(np.ones(len(values)), 50):
        assert ((v[0] - p[0]) ** 2).sum() <= ((v[0] - q) ** 2).sum() + 1e-9


def test_weights_stay_as_they_are():
    c = weights()
    np.testing.assert_allclose(knowledge.nearest_weights(c), c)


@pytest.mark.parametrize("seed", range(5))
def test_descent_goes_down_to_where_it_stays(seed):
    f, c, before = words(seed=seed), weights(seed=seed + 10), math.inf
    for _ in range(300):
        now = objective(c, f, 0.7)
        assert now <= before + 1e-9
        before, c = now, knowledge.knowledge_step(c, f, 0.1, 0.7)
    np.testing.assert_allclose(knowledge.knowledge_step(c, f, 0.1, 0.7), c, atol=1e-6)


def test_who_says_the_same_counts_more_than_who_says_the_opposite():
    f = np.array([[[0.9, 0.1]], [[0.8, 0.2]], [[0.1, 0.9]]])
    w = knowledge.knowledge_step(np.full((3, 3), 1 / 3), f, 0.1, 0.7)
    assert w[0, 1] > 1 / 3 > w[0, 2]


def test_strongly_held_weights_stay_equal():
    w = np.full((4, 4), 0.25)
    for _ in range(20):
        w = knowledge.knowledge_step(w, words(), 1e-4, 1000.0)
    np.testing.assert_allclose(w, 0.25, atol=2e-3)


def test_a_class_without_any_chance_has_a_finite_gradient():
    f = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert np.isfinite(knowledge.knowledge_gradient(np.full((2, 2), 0.5), f, 0.7)).all()
