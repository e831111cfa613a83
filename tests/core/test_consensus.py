"""The quantities of the theory against plain loops."""

from itertools import product

import numpy as np
import pytest

from consilience.core import consensus


def matrices(rounds=4, agents=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(agents, 0.7), size=(rounds, agents))


def coarse_matrices(rounds=400, agents=3):
    """Weights of few values, so that ties and every outcome occur (no condition asks for stochastic rows)."""
    rng = np.random.default_rng(0)
    ws = rng.integers(0, 3, size=(rounds, agents, agents)).astype(float)
    ws[::2, :, -1] = np.minimum(ws[::2, :, -1], ws[::2].min(axis=2))
    return ws


def slow_row_difference(w):
    n = len(w)
    return max(abs(w[i][j] - w[k][j]) for i in range(n) for k in range(n) for j in range(n))


def slow_scrambling(w):
    n = len(w)
    return 1 - min(sum(min(w[i][j], w[k][j]) for j in range(n)) for i in range(n) for k in range(n))


def slow_product(a, b):
    n = len(a)
    return [[sum(a[i][k] * b[k][j] for k in range(n)) for j in range(n)] for i in range(n)]


def slow_column_sum(w, j):
    return sum(row[j] for row in w)


def slow_lowest(w, b):
    n = len(w)
    others = [i for i in range(n) if i != b]
    least = all(w[j][b] == min(w[j]) for j in others)
    lowest = all(slow_column_sum(w, b) < slow_column_sum(w, i) for i in others)
    return least, lowest


def slow_lower(w, low):
    n = len(w)
    regular = [i for i in range(n) if i not in low]
    pairs = list(product(regular, low))
    sums = all(slow_column_sum(w, r) > slow_column_sum(w, b) for r, b in pairs)
    gap = all(sum(w[i][r] - w[i][b] for i in regular) > w[b][b] - w[b][r] for r, b in pairs)
    less = all(w[i][r] >= w[i][b] for r, b in pairs for i in range(n) if i != b)
    return sums, gap, less


def test_row_difference_is_the_largest_difference_within_a_column():
    for w in matrices():
        assert consensus.row_difference(w) == slow_row_difference(w)


def test_scrambling_is_one_minus_the_smallest_overlap_of_two_rows():
    for w in matrices():
        assert consensus.scrambling(w) == pytest.approx(slow_scrambling(w))


def test_scrambling_ranges_from_agreement_to_strangers():
    assert consensus.scrambling(np.full((3, 3), 1 / 3)) == pytest.approx(0)
    assert consensus.scrambling(np.eye(3)) == 1


def test_contraction_bound_multiplies_the_scrambling_of_all_rounds_so_far():
    ws, bound, slow = matrices(), 1.0, []
    for w in ws:
        bound *= slow_scrambling(w)
        slow.append(bound)
    np.testing.assert_allclose(consensus.contraction_bound(ws), slow, rtol=1e-12)


def test_products_put_the_last_round_on_the_left():
    first, second, third, _ = ws = matrices()
    twice = slow_product(second, first)
    slow = [first, twice, slow_product(third, twice)]
    np.testing.assert_allclose(consensus.products(ws)[:3], slow, rtol=1e-12)


def test_influence_is_the_mean_row_of_the_product_of_all_rounds():
    first, second, third = ws = matrices(rounds=3)
    total = slow_product(third, slow_product(second, first))
    slow = [slow_column_sum(total, j) / 4 for j in range(4)]
    np.testing.assert_allclose(consensus.influence(ws), slow, rtol=1e-12)


def test_stationary_is_where_a_walk_along_trust_ends():
    w = matrices(rounds=1)[0]
    pi = [0.25] * 4
    for _ in range(2000):
        pi = [sum(pi[i] * w[i][j] for i in range(4)) for j in range(4)]
    np.testing.assert_allclose(consensus.stationary(w), pi, rtol=1e-9)


def test_stationary_never_goes_below_zero():
    pi = consensus.stationary(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]))
    assert (pi >= 0).all()
    np.testing.assert_allclose(pi, [1, 0, 0], atol=1e-12)


def test_self_confidence_is_the_trace_of_each_round():
    ws = matrices()
    slow = [sum(w[i][i] for i in range(4)) for w in ws]
    np.testing.assert_allclose(consensus.self_confidence(ws), slow, rtol=1e-12)


def test_trust_received_leaves_out_what_an_agent_believes_of_itself():
    w = matrices(rounds=1)[0]
    slow = [sum(w[i][j] for i in range(4) if i != j) for j in range(4)]
    np.testing.assert_allclose(consensus.trust_received(w), slow, rtol=1e-12)


@pytest.mark.parametrize(
    ("w", "expected"),
    [
        ([[0.5, 0.5], [0.1, 0.9]], True),
        ([[1.0, 0.0], [0.1, 0.9]], False),
        ([[0.5, 0.6], [0.1, 0.9]], False),
        ([[1.5, -0.5], [0.1, 0.9]], False),
    ],
)
def test_stochastic_means_positive_rows_that_sum_to_one(w, expected):
    assert consensus.is_stochastic(np.array(w)) is expected


@pytest.mark.parametrize(
    ("total", "atol", "expected"), [(1.05, 0.1, True), (1.05, 0.01, False), (1 + 1e-8, 1e-6, True)]
)
def test_rows_sum_to_one_as_closely_as_asked_for(total, atol, expected):
    w = np.full((2, 2), total / 2)
    assert consensus.is_stochastic(w, atol) is expected


@pytest.mark.parametrize("b", [0, 2])
def test_lowest_importance_checks_both_conditions_round_by_round(b):
    ws = coarse_matrices()
    conditions = consensus.lowest_importance(ws, b)
    slow = [slow_lowest(w.tolist(), b) for w in ws]
    flags = [conditions.least_trusted.tolist(), conditions.lowest_sum.tolist()]
    assert flags == [list(column) for column in zip(*slow, strict=True)]
    assert conditions.holds.tolist() == [all(row) for row in slow]
    assert all(set(column) == {False, True} for column in [*flags, conditions.holds.tolist()])


@pytest.mark.parametrize(("agents", "low"), [(3, [2]), (3, [1]), (4, [2, 3]), (4, [3, 0]), (5, [1, 4, 2])])
def test_lower_importance_checks_all_three_conditions_round_by_round(agents, low):
    ws = coarse_matrices(2000, agents)
    ws[::3, :, low] = 0
    ws[::3, low, low] = 1
    conditions = consensus.lower_importance(ws, low)
    slow = [slow_lower(w.tolist(), low) for w in ws]
    flags = [conditions.lower_sums.tolist(), conditions.trust_gap.tolist(), conditions.less_trusted.tolist()]
    assert flags == [list(column) for column in zip(*slow, strict=True)]
    assert conditions.holds.tolist() == [all(row) for row in slow]
    assert all(set(column) == {False, True} for column in [*flags, conditions.holds.tolist()])


def test_with_one_low_quality_agent_the_first_two_conditions_coincide():
    ws = coarse_matrices()
    one, many = consensus.lowest_importance(ws, 2), consensus.lower_importance(ws, [2])
    assert many.less_trusted.tolist() == one.least_trusted.tolist()
    assert many.lower_sums.tolist() == one.lowest_sum.tolist() == many.trust_gap.tolist()
