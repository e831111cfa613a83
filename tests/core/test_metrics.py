"""Metrics against plain loops, and scores against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score

from consilience.core import metrics


def predictions(*shape, classes=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), size=shape)


def labels(samples, classes=4):
    return np.random.default_rng(1).integers(classes, size=samples)


def coarse(samples, classes, seed=0):
    """Probabilities in steps of one eighth, so that many are equal."""
    counts = np.random.default_rng(seed).multinomial(8, np.ones(classes) / classes, size=samples)
    return counts / 8


def likely(f):
    """Labels drawn with the probabilities `f`: some bins are then too sure, others not sure enough."""
    draw = np.random.default_rng(2)
    return np.array([draw.choice(len(row), p=row) for row in f])


def slow_area(values, positive):
    """How often a positive sample has the higher value, over all pairs; equal values count half."""
    pairs = [
        (a, b)
        for a, yes in zip(values, positive, strict=True)
        if yes
        for b, other in zip(values, positive, strict=True)
        if not other
    ]
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


def slow_calibration(f, y, bins):
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        rows = [i for i in range(len(y)) if low < max(f[i]) <= high]
        if rows:
            sure = sum(max(f[i]) for i in rows) / len(rows)
            right = sum(f[i].tolist().index(max(f[i])) == y[i] for i in rows) / len(rows)
            total += len(rows) / len(y) * abs(right - sure)
    return total


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


def test_balanced_accuracy_counts_a_class_with_a_single_sample_like_any_other():
    f = np.eye(3)[[0, 0, 0, 1, 1]]
    assert metrics.balanced_accuracy(f, np.array([0, 0, 0, 1, 2])) == pytest.approx(2 / 3)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.parametrize("missing", [None, 0, 2, 3])
def test_balanced_accuracy_is_that_of_sklearn_even_when_a_class_is_missing(missing):
    f, y = predictions(60), labels(60)
    keep = y != missing
    f, y = f[keep], y[keep]
    assert metrics.balanced_accuracy(f, y) == pytest.approx(balanced_accuracy_score(y, f.argmax(axis=1)))


@pytest.mark.parametrize("classes", [2, 4])
def test_accuracy_is_that_of_sklearn(classes):
    f, y = coarse(80, classes), labels(80, classes)
    assert metrics.accuracy(f, y) == accuracy_score(y, f.argmax(axis=1))


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("values", [coarse, lambda n, classes: predictions(n, classes=classes)], ids=["ties", "none"])
def test_auc_is_how_often_a_sample_of_a_class_has_the_higher_probability_for_it(values, classes):
    """With two classes for the second, with more the mean over classes, each against the rest."""
    f, y = values(60, classes), labels(60, classes)
    slow = [slow_area(f[:, c], y == c) for c in ([1] if classes == 2 else range(classes))]
    assert metrics.auc(f, y) == pytest.approx(sum(slow) / len(slow), rel=1e-12)
    theirs = roc_auc_score(y, f[:, 1]) if classes == 2 else roc_auc_score(y, f, multi_class="ovr", average="macro")
    assert metrics.auc(f, y) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("missing", [0, 2, 3])
def test_auc_leaves_out_a_class_that_no_sample_has(missing):
    f, y = coarse(60, 4), labels(60)
    f, y = f[y != missing], y[y != missing]
    theirs = [roc_auc_score(y == c, f[:, c]) for c in range(4) if c != missing]
    assert metrics.auc(f, y) == pytest.approx(sum(theirs) / 3, rel=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("only", [0, 1])
@pytest.mark.filterwarnings("error")
def test_auc_of_samples_of_one_class_is_not_defined(classes, only):
    assert math.isnan(metrics.auc(predictions(10, classes=classes), np.full(10, only)))


def test_auc_goes_from_nil_through_a_half_to_one():
    y = np.array([0, 0, 1, 1])
    for second, expected in (([0.1, 0.2, 0.7, 0.9], 1), ([0.9, 0.7, 0.2, 0.1], 0), ([0.4] * 4, 0.5)):
        assert metrics.auc(np.array([[1 - p, p] for p in second]), y) == expected


def test_of_two_classes_auc_looks_at_the_second_alone():
    f = np.array([[0.0, 0.1], [0.0, 0.2], [0.0, 0.7], [0.0, 0.9]])
    assert metrics.auc(f, np.array([0, 0, 1, 1])) == 1


def test_auc_depends_on_the_order_of_values_alone():
    f, y = predictions(50, classes=2), labels(50, 2)
    assert metrics.auc(np.log(f), y) == metrics.auc(f, y)


@pytest.mark.parametrize("classes", [2, 4])
def test_log_loss_is_the_mean_of_minus_log_of_the_true_class(classes):
    f, y = predictions(60, classes=classes), labels(60, classes)
    slow = [-math.log(row[label]) for row, label in zip(f, y, strict=True)]
    assert metrics.log_loss(f, y) == pytest.approx(sum(slow) / len(slow), rel=1e-12)
    assert metrics.log_loss(f, y) == pytest.approx(log_loss(y, f, labels=range(classes)), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_loss_of_certainty_is_as_large_and_as_small_as_the_precision_allows(dtype):
    """As in scikit-learn: a probability of 0 or 1 is one step of the precision away from it."""
    certain, eps = np.array([[1, 0]], dtype), float(np.finfo(dtype).eps)
    assert metrics.log_loss(certain, np.array([1])) == pytest.approx(-math.log(eps), rel=1e-6)
    assert metrics.log_loss(certain, np.array([0])) == pytest.approx(eps, rel=1e-6)
    both = np.array([[1, 0], [0.5, 0.5], [0, 1]], dtype)
    assert metrics.log_loss(both, np.array([1, 0, 1])) == pytest.approx(log_loss([1, 0, 1], both), rel=1e-6)


def test_log_loss_of_a_class_that_is_missing_from_the_labels_is_that_of_sklearn():
    f, y = predictions(40), labels(40) % 2
    assert metrics.log_loss(f, y) == pytest.approx(log_loss(y, f, labels=range(4)), rel=1e-12)


@pytest.mark.parametrize(("classes", "bins"), [(2, 15), (4, 15), (4, 7), (3, 1)])
def test_calibration_error_is_the_mean_gap_of_confidence_and_accuracy_over_bins(classes, bins):
    f = predictions(200, classes=classes)
    y = likely(f)
    assert metrics.calibration_error(f, y, bins) == pytest.approx(slow_calibration(f, y, bins), rel=1e-12)


def test_calibration_error_has_fifteen_bins_unless_told_otherwise():
    f = predictions(200)
    of = {bins: metrics.calibration_error(f, likely(f), bins) for bins in (14, 15, 16)}
    assert len(set(of.values())) == 3
    assert metrics.calibration_error(f, likely(f)) == of[15]


def test_a_confidence_on_the_border_of_two_bins_belongs_to_the_lower():
    """Of four bins: 0.5 is in the second with 0.375, and 1 is in the last."""
    f = np.array([[0.5, 0.25, 0.25], [0.375, 0.3125, 0.3125], [1.0, 0.0, 0.0], [0.875, 0.125, 0.0]])
    y = np.array([0, 1, 0, 1])
    assert metrics.calibration_error(f, y, 4) == slow_calibration(f, y, 4) == (0.125 + 0.875) / 4


def test_the_least_and_the_most_sure_have_bins_of_their_own():
    """Confidences of 1/20 (never right) and 1/10 (always right) do not cancel; a little above 1 is as good as 1."""
    low, some = np.full((9, 20), 0.05), np.full((1, 20), 0.9 / 19)
    some[0, 3] = 0.1
    f, y = np.concatenate([low, some]), np.array([7] * 9 + [3])
    assert metrics.calibration_error(f, y) == pytest.approx((9 * 0.05 + 0.9) / 10)
    above = np.array([[1.0000001, 0.0], [0.96, 0.04]], np.float32)
    assert metrics.calibration_error(above, np.array([1, 0])) == pytest.approx((1 - 0.04) / 2)


def test_predictions_that_are_as_often_right_as_they_say_are_calibrated():
    f = np.array([[0.75, 0.25]] * 4)
    assert metrics.calibration_error(f, np.array([0, 0, 0, 1])) == 0
    assert metrics.calibration_error(f, np.array([0, 0, 0, 0])) == 0.25
    assert metrics.calibration_error(f, np.array([1, 1, 1, 1])) == 0.75


@pytest.mark.parametrize("measure", [metrics.auc, metrics.log_loss, metrics.calibration_error])
def test_scores_agree_in_single_and_double_precision(measure):
    f, y = predictions(1000), labels(1000)
    assert measure(f.astype(np.float32), y) == pytest.approx(measure(f, y), rel=1e-5)


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


def test_disagreement_of_all_is_the_mean_over_samples_of_the_largest_difference():
    f = predictions(5, 10)
    total = 0.0
    for x in range(10):
        total += max(abs(f[i, x, c] - f[j, x, c]) for i in range(5) for j in range(5) for c in range(4))
    assert metrics.disagreement(f) == pytest.approx(total / 10)


def test_distance_to_mean_is_each_agents_largest_disagreement_with_the_collective():
    f = predictions(5, 10)
    slow = [0.0] * 5
    for i in range(5):
        for x in range(10):
            mean = [sum(f[j, x, c] for j in range(5)) / 5 for c in range(4)]
            slow[i] += max(abs(f[i, x, c] - mean[c]) for c in range(4)) / 10
    np.testing.assert_allclose(metrics.distances_to_mean(f), slow, rtol=1e-12)


def test_agents_that_agree_have_no_disagreement():
    f = np.repeat(predictions(1, 10), 4, axis=0)
    assert metrics.disagreement(f) == 0
    np.testing.assert_allclose(metrics.distances_to_mean(f), 0, atol=1e-15)


@pytest.mark.parametrize("measure", [metrics.disagreement, metrics.distances_to_mean])
def test_measures_of_disagreement_agree_in_single_and_double_precision(measure):
    f = predictions(5, 1000)
    np.testing.assert_allclose(measure(f.astype(np.float32)), measure(f), rtol=1e-5)


@pytest.mark.parametrize("distance", [metrics.rmse, metrics.cross_entropy, metrics.squared_distance])
def test_distances_agree_in_single_and_double_precision(distance):
    f, psi = predictions(1000), predictions(1000, seed=1)
    assert distance(f.astype(np.float32), psi.astype(np.float32)) == pytest.approx(distance(f, psi), rel=1e-5)


def test_sums_over_samples_are_in_double_precision():
    """Runs of thousands of samples in single precision: exact to the last digits of the single values."""
    f, psi, y = predictions(3, 5000).astype(np.float32), predictions(5000, seed=1).astype(np.float32), labels(5000)
    log = np.log(f[0])
    own = [-float(log[row, label]) for row, label in enumerate(y)]
    assert metrics.log_loss(f[0], y) == pytest.approx(math.fsum(own) / 5000, rel=1e-12)
    terms = [-float(value) for value in (psi * log).ravel()]
    assert metrics.cross_entropy(f[0], psi) == pytest.approx(math.fsum(terms) / 5000, rel=1e-12)
    largest = [float(max(f[:, x, c].max() - f[:, x, c].min() for c in range(4))) for x in range(5000)]
    assert metrics.disagreement(f) == pytest.approx(math.fsum(largest) / 5000, rel=1e-12)
    mean = f.mean(axis=0)
    for agent, distance in enumerate(metrics.distances_to_mean(f)):
        away = [float(max(abs(f[agent, x, c] - mean[x, c]) for c in range(4))) for x in range(5000)]
        assert distance == pytest.approx(math.fsum(away) / 5000, rel=1e-12)
