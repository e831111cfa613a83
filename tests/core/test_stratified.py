"""Trust per stratum, each equation against plain loops; and what must hold for any predictions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.core import stratified
from consilience.core.stratified import (
    LEAST,
    agreement,
    capped,
    centred_trust,
    correlations,
    informativeness,
    labels_of_rows,
    mean_weights,
    middle_mean,
    reached_by_a_third,
    reference,
    samples_worth,
    shrunk,
    strata,
    stratified_labels,
    stratified_weights,
    value_strata,
    value_weights,
    voices,
)
from consilience.core.trust import entropy_trust


def predictions(agents: int, samples: int, classes: int, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return draw.dirichlet(np.full(classes, 0.5), (agents, samples)).astype(np.float32)


def test_centred_trust_with_plain_loops():
    f = predictions(4, 30, 3)
    expected = np.zeros((4, 4))
    u = [[[f[i, x, c] - f[i, :, c].mean() for c in range(3)] for x in range(30)] for i in range(4)]
    for i in range(4):
        for j in range(4):
            dot = sum(u[i][x][c] * u[j][x][c] for x in range(30) for c in range(3))
            size = [np.sqrt(sum(v * v for row in u[k] for v in row)) for k in (i, j)]
            expected[i, j] = max(LEAST, dot / size[0] / size[1])
        expected[i, i] = max(expected[i, j] for j in range(4) if j != i)
        expected[i] /= expected[i].sum()
    np.testing.assert_allclose(centred_trust(f), expected, rtol=1e-4)


def test_correlations_within_groups_with_plain_loops():
    f, groups = predictions(3, 30, 3), np.arange(30) % 4
    own = {
        (i, g, c): np.mean([f[i, x, c] for x in range(30) if groups[x] == g])
        for i in range(3)
        for g in range(4)
        for c in range(3)
    }
    u = [[f[i, x, c] - own[i, groups[x], c] for x in range(30) for c in range(3)] for i in range(3)]
    expected = np.array(
        [[np.dot(u[i], u[j]) / np.sqrt(np.dot(u[i], u[i]) * np.dot(u[j], u[j])) for j in range(3)] for i in range(3)]
    )
    np.testing.assert_allclose(correlations(f, groups), expected, rtol=1e-4)
    np.testing.assert_array_equal(correlations(f, np.zeros(30, int)), correlations(f))


def test_somebody_who_always_says_the_same_is_correlated_with_nobody():
    f = 0.5 * predictions(4, 50, 3) + 0.5 * np.eye(3, dtype=np.float32)[np.arange(50) % 3]
    f[1] = [0.8, 0.1, 0.1]
    w = centred_trust(f)
    assert (w[[0, 2, 3], 1] < 0.01).all()
    assert entropy_trust(f)[0, 1] > 0.15, "the cosine of probabilities is high by chance"


def test_one_agent_believes_itself():
    np.testing.assert_array_equal(centred_trust(predictions(1, 5, 3)), [[1.0]])


def test_capped_with_plain_loops():
    w = entropy_trust(predictions(5, 20, 3))
    for i, row in enumerate(capped(w)):
        expected = [w[i, j] if j == i else min(w[i, j], np.median(w[i])) for j in range(5)]
        np.testing.assert_allclose(row, np.array(expected) / sum(expected))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 20), st.integers(0, 10**6))
def test_the_middle_mean_with_plain_loops(agents, values, seed):
    draw = np.random.default_rng(seed)
    f = draw.integers(-4, 4, (agents, values)).astype(np.float32) / 4  # with ties, and with zeros of both signs
    f = np.where((f == 0) & (draw.random(f.shape) < 0.5), np.float32(-0.0), f)
    f = np.abs(f) if seed % 2 else f
    w = draw.uniform(0.1, 1, agents)
    found = middle_mean(w, f)
    for column in range(values):
        below, total = 0.0, 0.0
        for value, weight in sorted(zip(f[:, column].tolist(), (w / w.sum()).tolist(), strict=True)):
            inside = max(0.0, min(below + weight, 2 / 3) - max(below, 1 / 3))
            total, below = total + 3 * inside * value, below + weight
        assert found[column] == pytest.approx(total, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_less_than_a_third_of_the_weight_moves_the_middle_mean_not_beyond_others(agents, seed):
    draw = np.random.default_rng(seed)
    f, w = draw.uniform(0.3, 0.6, (agents, 8)), draw.uniform(0.1, 1, agents)
    order = draw.permutation(agents)
    liars = order[np.cumsum(w[order]) < w.sum() / 3 * (1 - 1e-9)]
    honest = np.setdiff1d(np.arange(agents), liars)
    f[liars] = draw.integers(0, 2, (len(liars), 8))
    found = middle_mean(w, f)
    assert (found >= f[honest].min(axis=0) - 1e-6).all()
    assert (found <= f[honest].max(axis=0) + 1e-6).all()


def test_a_far_outlier_does_not_round_the_middle_mean_of_the_others():
    f = np.array([[0.1, 1.5], [0.2, 1.25], [0.3, 1.75], [-1e9, 1e9]], np.float32)
    expected = middle_mean(np.ones(3), f[:3])
    np.testing.assert_array_equal(middle_mean(np.array([1.0, 1.0, 1.0, 0.0]), f), expected)
    np.testing.assert_allclose(middle_mean(np.array([1.0, 1.0, 1.0, 0.2]), f), [0.2, 1.5], atol=0.1)


def test_chunks_do_not_change_the_middle_mean(monkeypatch):
    f, w = predictions(5, 40, 4), np.array([0.3, 0.1, 0.2, 0.2, 0.2])
    whole = middle_mean(w, f)
    monkeypatch.setattr(stratified, "CHUNK_BYTES", 64 * 5 * 7)
    np.testing.assert_array_equal(middle_mean(w, f), whole)


@pytest.mark.parametrize("seed", range(5))
def test_looking_at_few_candidates_gives_the_same_reference_as_looking_at_all(seed):
    f = predictions(7, 60, 20, seed)
    f[:3] = 0.6 * f[:3] + 0.4 * np.eye(20)[np.random.default_rng(seed).integers(0, 20, 60)]
    w0 = capped(entropy_trust(f))
    w = np.median(w0, axis=0)
    middle = middle_mean(w, f)
    classes, sure = reference(w0, f)
    np.testing.assert_array_equal(classes, middle.argmax(axis=1))
    np.testing.assert_array_equal(sure, middle.max(axis=1))


def test_a_minority_of_colluding_agents_does_not_move_the_class_of_the_reference():
    f = np.full((10, 20, 3), [0.8, 0.1, 0.1], np.float32)
    f[7:] = [0.0, 1.0, 0.0]
    classes, sure = reference(capped(entropy_trust(f)), f)
    assert (classes == 0).all()
    np.testing.assert_allclose(sure, 0.8)


def test_strata_with_plain_loops():
    draw = np.random.default_rng(0)
    classes, sure, groups = draw.integers(0, 3, 24), draw.uniform(0, 1, 24), np.arange(24) % 2
    found = strata(classes, sure, 3, groups)
    assert found.count == 12
    for x in range(24):
        unsure = sure[x] < np.median(sure[groups == groups[x]])
        assert found.numbers[x] == groups[x] * 6 + 2 * classes[x] + unsure


@pytest.mark.parametrize("grouped", [False, True])
def test_informativeness_with_plain_loops(grouped):
    agents = 7
    f = predictions(agents, 24, 4)
    groups = np.arange(24) % 2 if grouped else None
    of = np.zeros(24, int) if groups is None else groups
    classes, sure = reference(capped(entropy_trust(f)), f)
    found = strata(classes, sure, 4, groups)
    s = informativeness(f, found, 5.0, groups)
    a = [
        [max(0, f[j, x, classes[x]] - f[j, of == of[x], classes[x]].mean()) + LEAST for x in range(24)]
        for j in range(agents)
    ]
    third = [sorted((a[j][x] for j in range(agents)), reverse=True)[2] for x in range(24)]  # two of seven may lie
    for j in range(agents):
        bounded = [min(a[j][x], third[x]) for x in range(24)]
        for b in range(found.count):
            members = [bounded[x] for x in range(24) if found.numbers[x] == b]
            expected = (sum(members) + 5 * np.mean(bounded)) / (len(members) + 5)
            assert s[j, b] == pytest.approx(expected, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20), st.integers(0, 10**6))
def test_fewer_than_a_third_cannot_raise_the_bound_above_every_honest_agent(agents, seed):
    draw = np.random.default_rng(seed)
    liars = (agents - 1) // 3
    assert 3 * liars < agents
    a = draw.uniform(0, 1, (agents, 6))
    a[:liars] = 10.0
    assert (reached_by_a_third(a) <= a[liars:].max(axis=0)).all()


def test_voices_with_plain_loops():
    rho = correlations(predictions(5, 40, 3))
    rho[0, 1] = rho[1, 0] = 0.97
    rho[3, 4] = rho[4, 3] = 0.9
    alone = [1 / sum(1 if k == j else max(0, rho[j, k]) ** 30 for k in range(5)) for j in range(5)]
    np.testing.assert_allclose(voices(rho, 30.0), [min(one, sorted(alone)[2]) for one in alone])
    np.testing.assert_allclose(voices(rho, 0.0), np.full(5, 1 / 5))


def test_three_who_say_the_same_have_one_voice_and_agents_in_consensus_keep_theirs():
    f = predictions(7, 60, 4)
    f[5] = f[6] = f[4]
    v = voices(correlations(f), 30.0)
    assert v[4:].sum() == pytest.approx(1, abs=0.01)
    np.testing.assert_allclose(v[:4], 1, atol=0.01)
    agreed = np.full((6, 6), 0.98) + 0.02 * np.eye(6)
    agreed[5, :5] = agreed[:5, 5] = 0.1
    np.testing.assert_allclose(voices(agreed, 30.0), voices(agreed, 30.0)[0], err_msg="a stranger gains nothing")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 30), st.integers(1, 8), st.integers(0, 10**6))
def test_shrunk_means_lie_between_the_mean_of_the_stratum_and_that_of_all(agents, samples, count, seed):
    draw = np.random.default_rng(seed)
    a, numbers = draw.uniform(0, 1, (agents, samples)), draw.integers(0, count, samples)
    s = shrunk(a, numbers, count)
    for j in range(agents):
        for b in range(count):
            common = a[j].mean()
            own = a[j, numbers == b].mean() if (numbers == b).any() else common
            assert min(own, common) - 1e-9 <= s[j, b] <= max(own, common) + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_samples_worth_with_plain_loops(seed):
    """One-way random effects by moments: unequal strata, one of them empty, agents with means of their own."""
    draw = np.random.default_rng(seed)
    sizes = np.array([9, 0, 1, 14, 6])
    numbers = np.repeat(np.arange(5), sizes)
    a = draw.normal(0, 1, (3, 30)) + 2 * draw.normal(0, 1, (3, 5))[:, numbers] + 7 * np.arange(3)[:, None]
    sums = np.array([[row[numbers == b].sum() for b in range(5)] for row in a])
    within, across = 0.0, 0.0
    for row in a:
        for b in (0, 2, 3, 4):
            inside = row[numbers == b]
            within += sum((one - inside.mean()) ** 2 for one in inside) / (3 * (30 - 4))
            across += len(inside) * (inside.mean() - row.mean()) ** 2 / (3 * (4 - 1))
    mean_size = (30 - sum(int(size) ** 2 for size in sizes) / 30) / (4 - 1)
    expected = within / ((across - within) / mean_size)
    assert 0.1 < expected < 1e4
    assert samples_worth(a, sizes, sums) == pytest.approx(expected, rel=1e-9)


def test_samples_worth_has_bounds_and_two_strata_are_enough():
    a = np.array([[0.0, 0.0, 1.0, 1.0]])
    assert samples_worth(a, np.array([2, 2]), np.array([[0.0, 2.0]])) == 0.1, "nothing varies within strata"
    same = np.array([[0.0, 1.0, 0.0, 1.0]])
    assert samples_worth(same, np.array([2, 2]), np.array([[1.0, 1.0]])) == 1e4, "strata are all alike"
    assert samples_worth(a, np.array([4]), np.array([[2.0]])) == 5.0


def test_who_is_as_sure_as_the_median_is_sure_and_groups_have_medians_of_their_own():
    sure = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    found = strata(np.zeros(6, int), sure, 1, np.array([0, 0, 0, 1, 1, 1]))
    assert found.numbers.tolist() == [1, 0, 0, 3, 2, 2]
    assert found.count == 4


def test_samples_worth_finds_the_ratio_of_variances_it_was_made_with():
    """Within 4, between 1: a stratum's mean is worth as much as the common one once it has four samples."""
    draw = np.random.default_rng(0)
    numbers = np.repeat(np.arange(200), draw.integers(5, 40, 200))
    effects = draw.normal(0, 1, (3, 200))
    a = effects[:, numbers] + draw.normal(0, 2, (3, len(numbers)))
    sizes, sums = np.bincount(numbers), np.stack([np.bincount(numbers, row) for row in a])
    assert samples_worth(a, sizes, sums) == pytest.approx(4, rel=0.15)
    noise = draw.normal(0, 1, a.shape)
    sums = np.stack([np.bincount(numbers, row) for row in noise])
    assert samples_worth(noise, sizes, sums) > 50, "strata that do not differ are not told apart"
    assert samples_worth(a[:, :1], np.array([1]), a[:, :1]) == 5.0


def test_agreement_of_mean_and_reference_with_plain_loops():
    f = predictions(5, 40, 3)
    f[4] = np.eye(3)[np.zeros(40, int)]  # pulls at the mean, not at the reference
    w0 = capped(centred_trust(f))
    classes, _ = reference(w0, f)
    w = [np.median(w0[:, j]) for j in range(5)]
    same = [np.argmax([sum(w[j] * float(f[j, x, c]) for j in range(5)) for c in range(3)]) for x in range(40)]
    share = np.mean([one == other for one, other in zip(same, classes, strict=True)])
    assert 0 < share < 1
    assert agreement(w0, f, classes) == pytest.approx(max(0, 2 * share - 1))


def test_weights_labels_and_their_mean_with_plain_loops():
    f = predictions(4, 15, 3)
    w0 = capped(entropy_trust(f))
    classes, sure = reference(w0, f)
    found = strata(classes, sure, 3)
    s = informativeness(f, found, 5.0)
    w = stratified_weights(w0, s, 2.0)
    psi = stratified_labels(w, f, found.numbers, np.array([3, 1]))
    mean = np.zeros((4, 4))
    for x in range(15):
        b = found.numbers[x]
        for i in range(4):
            weights = np.array([w0[i, j] * (s[j, b] / max(s[k, b] for k in range(4))) ** 2 for j in range(4)])
            weights /= weights.sum()
            mean[i] += weights / 15
            if i in (3, 1):
                expected = sum(weights[j] * f[j, x].astype(float) for j in range(4))
                np.testing.assert_allclose(psi[[3, 1].index(i), x], expected, rtol=1e-4)
    np.testing.assert_allclose(mean_weights(w, found.numbers), mean, rtol=1e-6)


@pytest.mark.parametrize("rows", [[2], [3, 1], [0, 1, 2, 3]])
def test_labels_of_few_rows_with_plain_loops(rows):
    f = predictions(4, 15, 3)
    draw = np.random.default_rng(1)
    numbers, w = draw.integers(0, 6, 15), draw.dirichlet(np.ones(4), (6, 4))
    psi = labels_of_rows(w, f, numbers, np.array(rows))
    assert psi.shape == (len(rows), 15, 3)
    assert psi.dtype == f.dtype
    for at, i in enumerate(rows):
        for x in range(15):
            for c in range(3):
                expected = sum(w[numbers[x], i, j] * float(f[j, x, c]) for j in range(4))
                assert psi[at, x, c] == pytest.approx(expected, rel=1e-5)


def test_which_rows_are_asked_for_changes_no_bit():
    f = predictions(6, 50, 5)
    w0 = capped(centred_trust(f))
    found = strata(*reference(w0, f), 5)
    w = stratified_weights(w0, informativeness(f, found, 5.0), 2.0)
    whole = stratified_labels(w, f, found.numbers, np.arange(6))
    np.testing.assert_array_equal(stratified_labels(w, f, found.numbers, np.array([4])), whole[[4]])


def test_an_agent_that_never_saw_a_class_counts_little_where_that_class_is():
    """Agent 0 knows classes 0 and 1 only, agent 1 all three; both are right where they know."""
    truth = np.repeat([0, 1, 2], 30)
    good = np.eye(3)[truth] * 0.9 + 0.1 / 3
    blind = good.copy()
    blind[truth == 2] = [0.5, 0.5, 0.0]
    f = np.stack([blind, good, good, good]).astype(np.float32)
    w0 = capped(centred_trust(f))
    found = strata(*reference(w0, f), 3)
    w = stratified_weights(w0, informativeness(f, found, 5.0), 2.0)
    on = w[found.numbers][:, 1, 0]
    assert on[truth == 2].max() < 0.2 * on[truth == 0].min()


def test_somebody_who_always_says_the_majority_class_does_not_look_reliable():
    """Without the chance correction such a peer would score highest on the majority class."""
    truth = np.repeat([0, 1], [70, 30])
    good = np.where(truth[:, None] == [0, 1], 0.75, 0.25)
    lazy = np.tile([0.95, 0.05], (100, 1))
    f = np.stack([good, good, good, lazy]).astype(np.float32)
    w0 = capped(centred_trust(f))
    found = strata(*reference(w0, f), 2)
    s = informativeness(f, found, 5.0)
    assert (s[3] < 0.1 * s[0]).all()


def test_values_fall_into_ranges_with_equally_many_samples():
    r = np.random.default_rng(0).normal(0, 1, (22, 2))
    numbers = value_strata(r, 4)
    assert sorted(np.bincount(numbers).tolist()) == [5, 5, 6, 6]
    means = r.mean(axis=1)
    assert all(means[numbers == b].max() <= means[numbers == b + 1].min() for b in range(3))


def test_value_weights_with_plain_loops():
    draw = np.random.default_rng(0)
    f, w0 = draw.normal(0, 1, (3, 12, 2)), np.array([0.5, 0.3, 0.2])
    r = np.median(f, axis=0)
    numbers = value_strata(r, 3)
    w = value_weights(w0, f, r, numbers, scale=0.7, p=2.0, k0=5.0)
    a = [[np.exp(-sum((f[j, x] - r[x]) ** 2) / 2 / (2 * 0.7**2)) + LEAST for x in range(12)] for j in range(3)]
    for b in range(3):
        s = []
        for j in range(3):
            members = [a[j][x] for x in range(12) if numbers[x] == b]
            s.append((sum(members) + 5 * np.mean(a[j])) / (len(members) + 5))
        expected = np.array([w0[j] * (s[j] / max(s)) ** 2 for j in range(3)])
        np.testing.assert_allclose(w[b], expected / expected.sum())
