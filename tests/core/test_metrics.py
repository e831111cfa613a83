"""Metrics against plain loops, and balanced accuracy against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss

from consilience.core import metrics


def predictions(*shape, classes=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), size=shape)


def labels(samples, classes=4):
    return np.random.default_rng(1).integers(classes, size=samples)


def test_accuracy_is_the_share_of_right_classes():
    f, y = predictions(50), labels(50)
    right = [row.tolist().index(max(row)) == label for row, label in zip(f, y, strict=True)]
    assert metrics.accuracy(f, y) == sum(right) / 50


def test_balanced_accuracy_is_the_mean_of_the_accuracies_per_class():
    f = predictions(50)
    y = np.minimum(labels(50), labels(50)[::-1])
    by_class = []
    for c in sorted(set(y.tolist())):
        rows = [row.tolist().index(max(row)) == c for row, label in zip(f, y, strict=True) if label == c]
        by_class.append(sum(rows) / len(rows))
    assert metrics.balanced_accuracy(f, y) == pytest.approx(sum(by_class) / len(by_class))
    assert metrics.balanced_accuracy(f, y) != pytest.approx(metrics.accuracy(f, y))


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("missing", [None, 0, 2, 3])
def test_balanced_accuracy_is_that_of_sklearn_even_when_a_class_is_missing(missing):
    f, y = predictions(60), labels(60)
    keep = y != missing
    f, y = f[keep], y[keep]
    assert metrics.balanced_accuracy(f, y) == pytest.approx(balanced_accuracy_score(y, f.argmax(axis=1)))


@pytest.mark.parametrize("outputs", [1, 3])
def test_rmse_is_the_root_of_the_mean_squared_error(outputs):
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=(20, outputs)), rng.normal(size=(20, outputs))
    squares = [(a - b) ** 2 for p, q in zip(f, y, strict=True) for a, b in zip(p, q, strict=True)]
    assert metrics.rmse(f, y) == pytest.approx(math.sqrt(sum(squares) / len(squares)))


def test_rmse_compares_a_flat_target_sample_by_sample():
    assert metrics.rmse(np.array([[1.0], [2.0]]), np.array([1.0, 4.0])) == pytest.approx(math.sqrt(2))


def test_cross_entropy_is_minus_psi_log_f():
    f, psi = predictions(20), predictions(20, seed=1)
    slow = [-sum(q * math.log(p) for p, q in zip(a, b, strict=True)) for a, b in zip(f, psi, strict=True)]
    assert metrics.cross_entropy(f, psi) == pytest.approx(sum(slow) / len(slow))


def test_cross_entropy_with_hard_labels_is_the_log_loss_of_sklearn():
    f, y = predictions(30), labels(30)
    assert metrics.cross_entropy(f, np.eye(4)[y]) == pytest.approx(log_loss(y, f))


def test_cross_entropy_of_a_probability_of_zero_is_large_but_finite():
    f = np.array([[1.0, 0.0]])
    assert metrics.cross_entropy(f, np.array([[0.0, 1.0]])) == pytest.approx(-math.log(1e-8))
    assert metrics.cross_entropy(f, f) == 0


def test_squared_distance_is_the_mean_of_the_squared_norm():
    rng = np.random.default_rng(0)
    f, psi = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    slow = [sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p, q in zip(f, psi, strict=True)]
    assert metrics.squared_distance(f, psi) == pytest.approx(sum(slow) / len(slow))


def test_spread_is_the_mean_of_the_largest_disagreement():
    f = predictions(5, 10)
    total = 0.0
    for x in range(10):
        total += max(abs(f[i, x, c] - f[j, x, c]) for i in range(5) for j in range(5) for c in range(4))
    assert metrics.spread(f) == pytest.approx(total / 10)


def test_distance_to_mean_is_each_agents_largest_disagreement_with_the_collective():
    f = predictions(5, 10)
    slow = [0.0] * 5
    for i in range(5):
        for x in range(10):
            mean = [sum(f[j, x, c] for j in range(5)) / 5 for c in range(4)]
            slow[i] += max(abs(f[i, x, c] - mean[c]) for c in range(4)) / 10
    np.testing.assert_allclose(metrics.distances_to_mean(f), slow, rtol=1e-12)


def test_agents_that_agree_have_no_spread():
    f = np.repeat(predictions(1, 10), 4, axis=0)
    assert metrics.spread(f) == 0
    np.testing.assert_allclose(metrics.distances_to_mean(f), 0, atol=1e-15)


@pytest.mark.parametrize("measure", [metrics.spread, metrics.distances_to_mean])
def test_measures_of_disagreement_agree_in_single_and_double_precision(measure):
    f = predictions(5, 1000)
    np.testing.assert_allclose(measure(f.astype(np.float32)), measure(f), rtol=1e-5)


@pytest.mark.parametrize("distance", [metrics.rmse, metrics.cross_entropy, metrics.squared_distance])
def test_distances_agree_in_single_and_double_precision(distance):
    f, psi = predictions(1000), predictions(1000, seed=1)
    assert distance(f.astype(np.float32), psi.astype(np.float32)) == pytest.approx(distance(f, psi), rel=1e-5)
