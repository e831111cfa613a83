"""Each trust equation against the same equation in plain loops, and how the fast version computes it."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from consilience.core import trust


def predictions(seed=0, agents=4, samples=7, classes=3, concentration=0.5):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, concentration), size=(agents, samples))


def one_hot(agents=3, samples=8, classes=3):
    return np.eye(classes)[np.random.default_rng(0).integers(classes, size=(agents, samples))]


def slow_entropy(p):
    return -sum(q * math.log(q) for q in p if q > 0)


def slow_cosine(p, q):
    dot = sum(a * b for a, b in zip(p, q, strict=True))
    return dot / math.sqrt(sum(a * a for a in p)) / math.sqrt(sum(b * b for b in q))


def slow_trust(f, beta):
    agents, samples = len(f), len(f[0])
    w = []
    for i in range(agents):
        gamma = []
        for j in range(agents):
            total = 0.0
            for x in range(samples):
                total += beta(f[i][x]) * slow_cosine(f[i][x], f[j][x])
            gamma.append(total / samples)
        w.append([g / sum(gamma) for g in gamma])
    return np.array(w)


def slow_gaussian_row(f, i, s):
    gamma = []
    for j in range(len(f)):
        kernels = []
        for own, other in zip(f[i], f[j], strict=True):
            squared = sum((a - b) ** 2 for a, b in zip(own, other, strict=True)) / len(own)
            kernels.append(math.exp(-squared / (2 * s**2)))
        gamma.append(sum(kernels) / len(kernels))
    return [g / sum(gamma) for g in gamma]


def slow_metropolis(phi, pi):
    n = len(pi)
    w = [[0] * n for _ in range(n)]
    for x in range(n):
        for y in range(n):
            if y != x:
                w[x][y] = phi[x][y] * min(1, pi[y] * phi[y][x] / (pi[x] * phi[x][y]))
        w[x][x] = 1 - sum(w[x])
    return np.array(w)


def test_entropy_is_minus_the_sum_of_p_log_p():
    f = predictions()
    f[0, 0] = [0.0, 0.25, 0.75]
    slow = [[slow_entropy(p) for p in agent] for agent in f]
    np.testing.assert_allclose(trust.entropy(f), slow, rtol=1e-12)


def test_entropy_of_certainty_is_zero_and_of_ignorance_log_c():
    assert (trust.entropy(one_hot()) == 0).all()
    np.testing.assert_allclose(trust.entropy(np.full((1, 1, 5), 0.2)), math.log(5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entropy_is_never_negative(dtype):
    f = np.array([[[1.0 + 1e-7, 0.0]]], dtype=dtype)
    assert trust.entropy(f)[0, 0] == 0


@pytest.mark.parametrize(("offset", "floor"), [(0.0, 0.4), (0.0, 1e-3), (1.0, 1e-3)])
def test_confidence_is_one_over_entropy_plus_offset_with_a_floor(offset, floor):
    f = predictions()
    slow = [[1 / max(slow_entropy(p) + offset, floor) for p in agent] for agent in f]
    np.testing.assert_allclose(trust.confidence(f, offset, floor), slow, rtol=1e-12)


def test_confidence_of_certainty_is_one_with_the_default_offset():
    assert (trust.confidence(one_hot()) == 1).all()
    assert (trust.confidence(one_hot(), offset=0, floor=0.01) == 100).all()


@pytest.mark.parametrize(("offset", "floor"), [(0.0, 0.4), (0.0, 1e-3), (1.0, 1e-3)])
def test_entropy_trust_is_the_entropy_weighted_cosine(offset, floor):
    f = predictions()
    slow = slow_trust(f, lambda p: 1 / max(slow_entropy(p) + offset, floor))
    np.testing.assert_allclose(trust.entropy_trust(f, offset, floor), slow, rtol=1e-10)


def test_entropy_trust_adds_one_to_the_entropy_by_default():
    f = predictions()
    np.testing.assert_array_equal(trust.entropy_trust(f), trust.entropy_trust(f, offset=1))
    assert not np.allclose(trust.entropy_trust(f), trust.entropy_trust(f, offset=0))


def test_cosine_trust_counts_every_sample_alike():
    f = predictions()
    np.testing.assert_allclose(trust.cosine_trust(f), slow_trust(f, lambda p: 1), rtol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_certain_predictions_give_finite_trust(offset):
    f = one_hot()
    w = trust.entropy_trust(f, offset=offset)
    agreement = np.array([[(a == b).all(axis=1).mean() for b in f] for a in f])
    np.testing.assert_allclose(w, agreement / agreement.sum(axis=1, keepdims=True))


def test_an_agent_that_agrees_with_nobody_trusts_only_itself():
    f = np.eye(3)[:, None, :]
    np.testing.assert_array_equal(trust.entropy_trust(f, offset=0), np.eye(3))


def test_trust_is_uniform_among_agents_that_agree():
    f = np.repeat(predictions(agents=1), 5, axis=0)
    np.testing.assert_allclose(trust.entropy_trust(f), trust.uniform_trust(5))


def test_uniform_trust_is_one_over_n():
    assert trust.uniform_trust(4).tolist() == [[0.25] * 4] * 4


@pytest.mark.parametrize("chunk_samples", [1, 3, 7, 100])
@pytest.mark.parametrize("function", [trust.entropy_trust, trust.cosine_trust])
def testchunks_do_not_change_trust(monkeypatch, function, chunk_samples):
    f = predictions(samples=10)
    whole = function(f)
    monkeypatch.setattr(trust, "CHUNK_BYTES", chunk_samples * f[:, 0].nbytes)
    assert len(list(trust.chunks(f))) == math.ceil(10 / chunk_samples)
    np.testing.assert_allclose(function(f), whole, rtol=1e-12)


def test_a_sample_larger_than_a_chunk_is_a_chunk(monkeypatch):
    f = predictions()
    whole = trust.entropy_trust(f)
    monkeypatch.setattr(trust, "CHUNK_BYTES", 1)
    np.testing.assert_allclose(trust.entropy_trust(f), whole, rtol=1e-12)


@pytest.mark.parametrize("function", [trust.entropy_trust, trust.cosine_trust])
def test_single_and_double_precision_agree(function):
    f = predictions(agents=6, samples=500, classes=10)
    np.testing.assert_allclose(function(f.astype(np.float32)), function(f), rtol=1e-4)


def test_entropy_trust_needs_less_extra_memory_than_the_predictions():
    f = np.random.default_rng(0).random((50, 1500, 100), dtype=np.float32)
    f /= f.sum(axis=2, keepdims=True)
    tracemalloc.start()
    try:
        trust.entropy_trust(f)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < f.nbytes


def test_gaussian_trust_is_the_mean_kernel():
    f = np.random.default_rng(0).normal(size=(4, 6, 2))
    scale = np.array([0.5, 1.0, 2.0, 0.7])
    slow = [slow_gaussian_row(f, i, scale[i]) for i in range(4)]
    np.testing.assert_allclose(trust.gaussian_trust(f, scale), slow, rtol=1e-12)


def test_gaussian_trust_adds_distances_in_double_precision():
    f = np.random.default_rng(0).normal(size=(2, 1, 3000)).astype(np.float32)
    squared = math.fsum(float(np.square(a - b)) for a, b in zip(f[0, 0], f[1, 0], strict=True))
    kernel = math.exp(-squared / 3000 / (2 * 1.5**2))
    w = trust.gaussian_trust(f, np.array([1.5, 1.5]))
    np.testing.assert_allclose(w[0], [1 / (1 + kernel), kernel / (1 + kernel)], rtol=1e-13)


def test_an_output_that_stands_there_four_times_changes_no_trust():
    f, scale = np.random.default_rng(0).normal(size=(3, 5, 1)), np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(trust.gaussian_trust(np.repeat(f, 4, axis=2), scale), trust.gaussian_trust(f, scale))


def test_gaussian_trust_is_unknown_for_agents_whose_noise_is():
    """Agents that live at other sites: their rows are NaN, and ours do not change."""
    f, scale = np.random.default_rng(0).normal(size=(3, 5, 1)), np.array([0.5, np.nan, 2.0])
    w = trust.gaussian_trust(f, scale)
    assert np.isnan(w[1]).all()
    whole = trust.gaussian_trust(f, np.array([0.5, 1.0, 2.0]))
    np.testing.assert_array_equal(w[[0, 2]], whole[[0, 2]])


def test_gaussian_trust_in_a_peer_far_outside_the_noise_is_nil():
    f = np.array([[[0.0]], [[0.1]], [[100.0]]])
    w = trust.gaussian_trust(f, np.ones(3))
    assert w[0, 2] == 0
    assert w[2].tolist() == [0, 0, 1]


@pytest.mark.parametrize("symmetric", [True, False])
def test_metropolis_accepts_a_move_by_the_ratio_of_flows(symmetric):
    rng = np.random.default_rng(3)
    phi = rng.dirichlet(np.full(5, 1.0), size=5)
    if symmetric:
        phi = (phi + phi.T) / 20
        phi += np.diag(1 - phi.sum(axis=1))
    pi = rng.dirichlet(np.full(5, 1.0))
    np.testing.assert_allclose(trust.metropolis(phi, pi), slow_metropolis(phi, pi), rtol=1e-10)


def test_metropolis_gives_the_matrix_of_the_papers_example_exactly():
    """Example `example-metropolis chain`."""
    third, quarter, sixth, half = (Fraction(1, d) for d in (3, 4, 6, 2))
    phi = np.array(
        [
            [third, quarter, quarter, sixth],
            [quarter, third, quarter, sixth],
            [quarter, quarter, third, sixth],
            [sixth, sixth, sixth, half],
        ]
    )
    pi = np.array([Fraction(3, 10)] * 3 + [Fraction(1, 10)])
    stays, low = Fraction(4, 9), Fraction(1, 18)
    expected = [
        [stays, quarter, quarter, low],
        [quarter, stays, quarter, low],
        [quarter, quarter, stays, low],
        [sixth, sixth, sixth, half],
    ]
    p = trust.metropolis(phi, pi)
    assert p.tolist() == expected
    assert (pi @ p).tolist() == pi.tolist()


def test_metropolis_leaves_its_arguments_alone():
    phi, pi = np.full((2, 2), 0.5), np.array([0.8, 0.2])
    trust.metropolis(phi, pi)
    assert (phi == 0.5).all()
    assert pi.tolist() == [0.8, 0.2]


def test_ideal_trust_is_metropolis_on_the_cosine_trust():
    f, pi = predictions(), np.array([0.4, 0.3, 0.2, 0.1])
    slow = slow_metropolis(slow_trust(f, lambda p: 1), pi)
    np.testing.assert_allclose(trust.ideal_trust(f, pi), slow, rtol=1e-10)


def test_restrict_drops_columns_and_renormalises_rows():
    w = trust.entropy_trust(predictions())
    heard = np.array([True, False, True, True])
    slow = [[row[j] / sum(row[k] for k in (0, 2, 3)) for j in (0, 2, 3)] for row in w]
    np.testing.assert_allclose(trust.restrict(w, heard), slow, rtol=1e-12)


def test_restrict_trusts_strangers_evenly():
    w = np.array([[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]])
    np.testing.assert_allclose(trust.restrict(w, np.array([False, True, True])), [[0.5, 0.5], [0.6, 0.4]])


def test_restrict_to_everybody_changes_nothing():
    w = trust.entropy_trust(predictions())
    np.testing.assert_allclose(trust.restrict(w, np.ones(4, dtype=bool)), w)
