"""Dual variables: against slow loops, and what they are for, agreement on what fits the labels of all."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilience.core.duals import LEAST, SCALES, dual_update

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
