"""Robust means, each written a second time with plain loops."""

import numpy as np
import pytest

from consilience.core import robust, trust


def words(agents: int = 7, samples: int = 9, classes: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(classes), (agents, samples))


@pytest.mark.parametrize("agents", [1, 2, 5, 6])
def test_median_and_trimmed_mean_with_plain_loops(agents):
    f = words(agents)
    cut = int(0.3 * agents)
    median, trimmed = np.empty(f.shape[1:]), np.empty(f.shape[1:])
    for s in range(f.shape[1]):
        for k in range(f.shape[2]):
            values = sorted(f[:, s, k])
            middle = values[(agents - 1) // 2 : agents // 2 + 1]
            median[s, k] = sum(middle) / len(middle)
            kept = values[cut : agents - cut]
            trimmed[s, k] = sum(kept) / len(kept)
    np.testing.assert_allclose(robust.coordinate_median(f, normalise=False), median)
    np.testing.assert_allclose(robust.trimmed_mean(f, 0.3, normalise=False), trimmed)
    np.testing.assert_allclose(robust.coordinate_median(f), median / median.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(robust.trimmed_mean(f, 0.3), trimmed / trimmed.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(robust.trimmed_mean(f, 0.0), f.mean(axis=0))


@pytest.mark.parametrize(("share", "cut"), [(0.29, 29), (0.07, 7), (0.299, 29)])
def test_a_share_of_a_hundred_agents_is_not_rounded_down_by_one(share, cut):
    f = words(100, 2, 3)
    expected = [[sum(sorted(f[:, s, k])[cut : 100 - cut]) / (100 - 2 * cut) for k in range(3)] for s in range(2)]
    np.testing.assert_allclose(robust.trimmed_mean(f, share, normalise=False), expected)


def test_where_a_median_is_nothing_at_all_it_is_the_mean():
    f = np.eye(3)[:, None]
    np.testing.assert_allclose(robust.coordinate_median(f), np.full((1, 3), 1 / 3))


def test_no_point_is_nearer_to_all_than_the_geometric_median():
    f = words(6)
    r = robust.geometric_median(f)

    def total(point: np.ndarray, s: int) -> float:
        return sum(float(np.sqrt(sum((f[j, s] - point) ** 2))) for j in range(len(f)))

    draw = np.random.default_rng(1)
    for s in range(f.shape[1]):
        for size in (0.1, 0.01, 0.001):
            for _ in range(20):
                assert total(r[s], s) <= total(r[s] + draw.normal(0, size, 4), s) + 1e-9
    np.testing.assert_allclose(r.sum(axis=1), 1)
    same = np.tile(f[:1], (5, 1, 1))
    np.testing.assert_allclose(robust.geometric_median(np.concatenate([same, f[1:4]])), f[0], atol=1e-5)


@pytest.mark.parametrize(
    ("agents", "classes", "share"), [(7, 4, 0.3), (7, 4, 0.45), (4, 9, 0.25), (5, 5, 0.4), (6, 1, 0.4)]
)
def test_filtered_mean_with_plain_loops(agents, classes, share):
    """More agents than classes, fewer, and as many; an odd number goes as two and one."""
    f = np.random.default_rng(5).normal(size=(agents, 9, classes))
    found = robust.filtered_mean(f, share)
    out = int(share * agents)
    for s in range(f.shape[1]):
        left = list(range(agents))
        for go in (out - out // 2, out // 2):
            mean = sum(f[j, s] for j in left) / len(left)
            covariance = sum(np.outer(f[j, s] - mean, f[j, s] - mean) for j in left) / len(left)
            _, vectors = np.linalg.eigh(covariance)
            score = {j: float(vectors[:, -1] @ (f[j, s] - mean)) ** 2 for j in left}
            for _ in range(go):
                left.remove(max(left, key=score.__getitem__))
        np.testing.assert_allclose(found[s], sum(f[j, s] for j in left) / len(left))


def test_a_filter_that_removes_nobody_is_the_mean_in_the_same_precision():
    f = words(4).astype(np.float32)
    for share in (0.0, 0.2):
        np.testing.assert_allclose(robust.filtered_mean(f, share), f.mean(axis=0), rtol=1e-6)
    assert robust.filtered_mean(f, 0.25).dtype == np.float32
    assert not np.allclose(robust.filtered_mean(f, 0.25), f.mean(axis=0), rtol=1e-3)
    agreed = np.tile(f[:1], (5, 1, 1))
    np.testing.assert_allclose(robust.filtered_mean(agreed, 0.4), f[0], rtol=1e-6)


@pytest.mark.parametrize(
    "mean",
    [
        robust.coordinate_median,
        robust.geometric_median,
        lambda f: robust.trimmed_mean(f, 0.4),
        lambda f: robust.filtered_mean(f, 0.4),
    ],
)
def test_a_minority_cannot_move_a_robust_mean_out_of_what_the_majority_says(mean):
    honest = np.random.default_rng(2).dirichlet(np.array([30.0, 5.0, 5.0]), (6, 20))
    liars = np.tile(np.eye(3)[2], (4, 20, 1))
    assert (mean(np.concatenate([honest, liars])).argmax(axis=1) == 0).mean() > 0.9
    assert (np.concatenate([honest, liars]).mean(axis=0)[:, 2] > 0.4).all()


def test_chunks_change_nothing(monkeypatch):
    f = words(samples=50)
    whole = [robust.coordinate_median(f), robust.trimmed_mean(f, 0.2)]
    monkeypatch.setattr(trust, "CHUNK_BYTES", 1000)
    np.testing.assert_array_equal(robust.coordinate_median(f), whole[0])
    np.testing.assert_array_equal(robust.trimmed_mean(f, 0.2), whole[1])


def test_exponential_weights_and_distances_with_plain_loops():
    f, centre = words(3), words(1, seed=5)[0]
    d = [sum(np.sqrt(sum((f[j, s] - centre[s]) ** 2)) for s in range(9)) / 9 for j in range(3)]
    np.testing.assert_allclose(robust.mean_distances(f, centre), d)
    p = [np.exp(-2 * value) for value in d]
    np.testing.assert_allclose(robust.exponential_weights(np.array(d), 2.0), np.array(p) / sum(p))
