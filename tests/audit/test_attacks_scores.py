"""The numbers of an audit, beside slow loops and known cases."""

from math import comb, exp, log

import numpy as np
import pytest

from consilience.audit.attacks import auc, canary_bound, p_value, true_positives


def test_auc_is_the_share_of_pairs_in_order_and_its_interval_covers():
    draw = np.random.default_rng(0)
    members, others = draw.integers(0, 9, 30) + 1.0, draw.integers(0, 9, 20) * 1.0
    pairs = [float(m > o) + 0.5 * float(m == o) for m in members for o in others]
    assert auc(members, others).value == pytest.approx(np.mean(pairs))
    covered = 0
    for _ in range(300):
        found = auc(draw.normal(0, 1, 80), draw.normal(0, 1, 60))
        covered += found.low <= 0.5 <= found.high
    assert 0.91 <= covered / 300 <= 0.985


def test_true_positives_at_a_share_of_false_ones():
    others = np.arange(100.0)
    found = true_positives(np.array([98.5, 99.5, 98.0, 5.0]), others, 0.01)
    assert found.value == 0.5 and found.low < 0.5 < found.high
    assert true_positives(np.array([99.0, 100.0]), others, 0.001).value == 0.5


def test_the_p_value_is_that_of_plain_sums():
    m, r, v, epsilon, delta = 20, 12, 9, 0.7, 1e-3
    q = exp(epsilon) / (1 + exp(epsilon))
    chance = [comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    worst = max(sum(chance[v - i : v]) / i for i in range(1, v + 1))
    assert p_value(m, r, v, epsilon, delta) == pytest.approx(sum(chance[v:]) + 2 * m * delta * worst)


def test_randomised_response_keeps_its_epsilon_and_is_nearly_found_out():
    """Answers that are right with the chance e^eps / (1 + e^eps): no bound above eps but in one case of twenty."""
    draw, epsilon, found = np.random.default_rng(1), 2.0, []
    for _ in range(60):
        inside = draw.random(400) < 0.5
        right = draw.random(400) < exp(epsilon) / (1 + exp(epsilon))
        scores = np.where(right == inside, 1.0, -1.0) + 0.01 * draw.random(400)
        found.append(canary_bound(scores, inside, 0.0))
    assert np.mean(np.array(found) > epsilon) <= 0.1 and np.mean(found) > 1.0
    sure = np.arange(100) < 50
    assert canary_bound(np.where(sure, 1.0, 0.0), sure, 0.0) > log(0.95 / 0.05)
