"""Dual variables: against slow loops, and what they are for, agreement on what fits the labels of all."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.core.duals import LEAST, SCALES, add_deviations, dual_update, duals_in_hindsight, shifted_labels
from consilience.core.labels import geometric_labels, pseudo_labels

DRAW = np.random.default_rng(0)
PREDICTIONS = {
    "classes": [DRAW.dirichlet(np.ones(3), 5) for _ in range(3)],
    "labels": [DRAW.uniform(0.01, 0.99, (5, 3)) for _ in range(3)],
    "values": [DRAW.normal(0, 2, (5, 3)) for _ in range(3)],
}


def slowly(u, own, psi, step, scale):
    """The same for one sample, in plain numbers."""

    def there(row):
        if scale == "values":
            return list(row)
        if scale == "labels":
            return [math.log(p / (1 - p)) for p in row]
        logs = [math.log(p) for p in row]
        return [value - sum(logs) / len(logs) for value in logs]

    z, t = there(own), there(psi)
    u = [before + step * (a - b) for before, a, b in zip(u, z, t, strict=True)]
    wanted = [b - d for b, d in zip(t, u, strict=True)]
    if scale == "labels":
        return u, [1 / (1 + math.exp(-value)) for value in wanted]
    if scale == "classes":
        return u, [math.exp(value) / sum(math.exp(other) for other in wanted) for value in wanted]
    return u, wanted


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("step", [0.5, 1.0])
def test_duals_with_plain_loops(scale, step):
    own, psi, later = PREDICTIONS[scale]
    u, labels = dual_update(np.zeros((5, 3)), own, psi, step, scale)
    u, labels = dual_update(u, labels, later, step, scale)
    for row in range(5):
        expected, told = slowly([0.0] * 3, own[row], psi[row], step, scale)
        expected, told = slowly(expected, told, later[row], step, scale)
        np.testing.assert_allclose(u[row], expected, rtol=1e-9)
        np.testing.assert_allclose(labels[row], told, rtol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_labels_are_predictions_in_the_precision_of_the_pseudo_labels(scale):
    own, psi = np.eye(3, dtype=np.float64), np.eye(3, dtype=np.float32)
    u = np.zeros_like(own)
    for _ in range(50):
        u, labels = dual_update(u, own[::-1], psi, 1.0, scale)
    assert labels.dtype == u.dtype == np.float32
    assert np.isfinite(labels).all()
    if scale != "values":
        assert labels.min() >= 0 and labels.max() <= 1
    if scale == "classes":
        np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-5)


@given(st.integers(0, 10_000), st.integers(2, 5))
def test_what_was_said_is_found_again(seed, outputs):
    draw = np.random.default_rng(seed)
    f = np.maximum(draw.dirichlet(np.full(outputs, 0.3), 4), LEAST)
    f /= f.sum(axis=1, keepdims=True)
    for scale in ("classes", "labels"):
        there, back = SCALES[scale]
        kept = np.clip(f, LEAST, 1 - LEAST)
        np.testing.assert_allclose(back(there(kept)), kept if scale == "labels" else f, rtol=1e-4, atol=1e-5)


@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(0.2, 3))
def test_agents_agree_on_what_fits_the_labels_of_all(seed, agents, lam):
    """Agents with losses a_i (z - b_i)^2 / 2 go to the minimum of the sum; without duals they stay apart."""
    draw = np.random.default_rng(seed)
    a, b = draw.uniform(0.5, 2, agents), draw.normal(0, 3, agents)
    z, u = b.copy(), np.zeros(agents)
    for _ in range(300):
        t = np.full(agents, z.mean())
        u, labels = dual_update(u, z, t, 1.0, "values")
        z = (a * b + lam * labels) / (a + lam)
        assert abs(u.sum()) < 1e-8 * max(1, np.abs(u).max()) * agents  # so that the mean of what is said is enough
    np.testing.assert_allclose(z, (a * b).sum() / a.sum(), atol=1e-3)


@pytest.mark.parametrize("scale", ["classes", "labels"])
def test_duals_in_hindsight_with_plain_loops(scale):
    draw = np.random.default_rng(3)
    f = np.stack([np.stack(PREDICTIONS[scale]), np.stack(PREDICTIONS[scale])[::-1]])  # rounds, agents, samples, outputs
    w = draw.dirichlet(np.ones(3), 3)
    d = np.zeros(f.shape[1:])
    for said in f:
        d = add_deviations(d, said, 0.7, scale)
    u = duals_in_hindsight(d, w)
    for i in range(3):
        for row in range(5):
            total = [0.0] * 3
            for said in f:
                logits = [there_of(said[j][row], scale) for j in range(3)]
                for c in range(3):
                    total[c] += 0.7 * (logits[i][c] - sum(w[i][j] * logits[j][c] for j in range(3)))
            np.testing.assert_allclose(u[i, row], total, rtol=1e-8, atol=1e-12)


def there_of(row, scale):
    """Logits of one sample, in plain numbers."""
    if scale == "labels":
        return [math.log(p / (1 - p)) for p in row]
    logs = [math.log(p) for p in row]
    return [value - sum(logs) / len(logs) for value in logs]


@given(st.integers(0, 10_000))
def test_in_hindsight_a_peer_that_is_shut_out_leaves_nothing_behind(seed):
    draw = np.random.default_rng(seed)
    honest, d, clean = draw.dirichlet(np.ones(3), (4, 3, 5)), np.zeros((4, 5, 3)), np.zeros((3, 5, 3))
    for said in honest:  # 4 rounds of 3 honest agents; the last agent lies surely
        d = add_deviations(d, np.concatenate([said, np.eye(3)[draw.integers(3, size=5)][None]]), 1.0, "classes")
        clean = add_deviations(clean, said, 1.0, "classes")
    w = np.zeros((4, 4))
    w[:, :3] = draw.dirichlet(np.ones(3))
    u = duals_in_hindsight(d, w)
    np.testing.assert_allclose(u[:3], duals_in_hindsight(clean, w[:3, :3]), atol=1e-9)
    np.testing.assert_allclose(np.tensordot(w[0], u, axes=1), 0, atol=1e-12)


class Linear:
    """An agent with logits W'x and the exact steps of `agents/newton.py`, in double precision."""

    ridge, lam = 0.05, 0.3

    def __init__(self, draw, rows, shared, truth):
        self.x, self.shared, self.w = draw.normal(size=(rows, 4)), shared, np.zeros((4, 3))
        self.y = np.eye(3)[(self.x @ truth + draw.gumbel(size=(rows, 3))).argmax(axis=1)]
        n = len(shared)
        self.metric = self.lam / n * shared.T @ shared + self.ridge * np.eye(4) + self.x.T @ self.x / (2 * rows)

    def gradient(self, w):
        return self.x.T @ (SCALES["classes"][1](self.x @ w) - self.y) / len(self.x) + self.ridge * w

    def says(self):
        return SCALES["classes"][1](self.shared @ self.w)

    def step(self, labels):
        z = self.shared @ self.w
        off = self.shared.T @ (z - SCALES["classes"][0](labels)) * (self.lam / len(z))
        self.w = self.w - np.linalg.solve(self.metric, self.gradient(self.w) + off)


def pooled(agents, v):
    """The minimum of sum_j v_j L_j, by gradient steps that never raise it."""
    w = np.zeros((4, 3))
    bound = sum(share * agent.x.T @ agent.x / (2 * len(agent.x)) for share, agent in zip(v, agents, strict=True))
    for _ in range(3000):
        total = sum(share * agent.gradient(w) for share, agent in zip(v, agents, strict=True))
        w = w - np.linalg.solve(bound + Linear.ridge * np.eye(4), total)
    return w


def collaborated(seed, by_samples, mean, in_hindsight=False, rounds=1500):
    """Agents after all rounds, the weights v of all, and the sums sum_j v_j u_j of the last round."""
    draw = np.random.default_rng(seed)
    shared, truth = draw.normal(size=(8, 4)), draw.normal(size=(4, 3))
    agents = [Linear(draw, rows, shared, truth) for rows in (10, 30, 50)]
    n = np.array([len(agent.x) for agent in agents])
    v = n / n.sum() if by_samples else np.full(3, 1 / 3)
    w, u, d = np.tile(v, (3, 1)), np.zeros((3, 8, 3)), np.zeros((3, 8, 3))
    for _ in range(rounds):
        f = np.stack([agent.says() for agent in agents])
        psi = geometric_labels(w, f, "classes") if mean == "geometric" else pseudo_labels(w, f)
        if in_hindsight:
            d = add_deviations(d, f, 1.0, "classes")
            u = duals_in_hindsight(d, w)
            labels = [shifted_labels(psi[i], u[i], "classes") for i in range(3)]
        else:
            pairs = [dual_update(u[i], f[i], psi[i], 1.0, "classes") for i in range(3)]
            u, labels = np.stack([pair[0] for pair in pairs]), [pair[1] for pair in pairs]
        for agent, wanted in zip(agents, labels, strict=True):
            agent.step(wanted)
    return agents, v, np.abs(np.tensordot(v, u, axes=1)).max()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_with_the_geometric_mean_linear_models_reach_what_all_data_say(seed, by_samples, in_hindsight):
    agents, v, off = collaborated(seed, by_samples, "geometric", in_hindsight)
    best = pooled(agents, v)
    assert off < 1e-11
    for agent in agents:
        np.testing.assert_allclose(agent.w, best, atol=1e-8)


def test_with_the_arithmetic_mean_linear_models_stop_elsewhere():
    agents, v, off = collaborated(0, False, "arithmetic")
    assert off > 0.01
    assert max(np.abs(agent.w - pooled(agents, v)).max() for agent in agents) > 1e-3
