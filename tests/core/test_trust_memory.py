"""Trust that remembers, against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilience.core.trust_memory import is_far_off, lowest_trust, mean_agreement, normalised_rows, sample_weights


def test_the_lowest_trust_of_all_rounds_with_plain_loops():
    draw = np.random.default_rng(0)
    rounds = draw.dirichlet(np.ones(4), size=(5, 4))
    lowest = np.full((4, 4), np.nan)
    for w in rounds:
        lowest = lowest_trust(lowest, w)
    for i in range(4):
        for j in range(4):
            assert lowest[i, j] == min(w[i][j] for w in rounds)


def test_the_mean_agreement_with_plain_loops():
    draw = np.random.default_rng(1)
    rho, v = draw.uniform(-1, 1, (5, 5)), draw.uniform(0.2, 1, 5)
    for j in range(5):
        others = [k for k in range(5) if k != j]
        expected = sum(v[k] * rho[j][k] for k in others) / sum(v[k] for k in others)
        assert mean_agreement(rho, v)[j] == pytest.approx(expected)


def test_nobody_is_far_off_before_agents_agree_on_anything():
    assert is_far_off(np.array([0.5, 0.4, 0.6, 0.1, -0.2]), 0.3).tolist() == [False, False, False, True, True]
    assert not is_far_off(np.array([0.005, 0.0, 0.004, -0.9]), 0.3).any()


def test_rows_are_normalised_and_a_row_of_zeros_is_uniform():
    assert normalised_rows(np.array([[2.0, 6.0], [0.0, 0.0]])).tolist() == [[0.25, 0.75], [0.5, 0.5]]


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=9), st.floats(1, 10), st.integers(1, 10**9))
def test_a_liar_gains_at_most_the_bound_over_the_median(samples, most, claimed):
    n = np.array([*samples, claimed], dtype=float)
    shares = sample_weights(n, most)
    assert shares.sum() == pytest.approx(1)
    assert shares[-1] <= most * np.median(n) / np.minimum(n, most * np.median(n)).sum() * (1 + 1e-9)
    for j in range(len(n)):
        assert shares[j] == pytest.approx(min(n[j], most * np.median(n)) / sum(min(m, most * np.median(n)) for m in n))


def test_who_declares_nothing_counts_as_the_median():
    assert sample_weights(np.array([1.0, np.nan, 3.0]), 9).tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert sample_weights(np.array([np.nan, np.nan]), 2).tolist() == [0.5, 0.5]
