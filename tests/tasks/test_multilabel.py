"""Several yes-or-no labels a sample: labels, predictions, losses and scores."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, hamming_loss, log_loss, roc_auc_score
from torch.nn import functional

from consilience import ConsilienceError
from consilience.core import metrics
from consilience.tasks import TASKS

TASK = TASKS.find("multilabel")


def probabilities(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.01, 0.99, shape).astype(np.float32)


def flags(samples, labels, seed=5):
    return np.random.default_rng(seed).integers(2, size=(samples, labels))


def score(name):
    (found,) = [one for one in TASK.scores if one.name == name]
    return found


def slow_distance(f, psi):
    total = 0.0
    for row, target in zip(f.tolist(), psi.tolist(), strict=True):
        for p, q in zip(row, target, strict=True):
            total -= q * math.log(p) + (1 - q) * math.log(1 - p)
    return total / f.size


@pytest.mark.parametrize("dtype", [bool, int, float, np.uint8])
def test_labels_are_zeros_and_ones_of_any_type(dtype):
    labels = TASK.labels(np.array([[0, 1, 1], [1, 0, 1]], dtype))
    assert labels.dtype == np.float32
    assert labels.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert TASK.outputs(labels) == 3
    assert TASK.counts(labels) == [1, 1, 2]


@pytest.mark.parametrize("y", [[0, 1], [[0, 2]], [[0.5, 1]], [[np.nan, 1]], [["a", "b"]], [[[0], [1]]]], ids=str)
def test_other_labels_are_refused_with_advice(y):
    with pytest.raises(
        ConsilienceError, match=r"a table of zeros and ones with a column for each label.*MultiLabelBin"
    ):
        TASK.labels(np.array(y))


def test_rows_with_values_outside_zero_to_one_are_found_and_the_first_is_described():
    f = np.array([[0.9, 0.9, 0.9], [0.5, 3.25, 0.0], [-1.0, 0.5, 0.5], [0, 0, 0]])
    bad, what = TASK.problem(f)
    assert bad.tolist() == [False, True, True, False]
    assert what == ("not probabilities (first: row 1, from 0 to 3.25). Did it send logits? Apply the sigmoid function.")


@pytest.mark.parametrize(
    ("value", "wrong"), [(-5e-7, False), (-2e-6, True), (1.0005, False), (1.002, True), (0.0, False), (1.0, False)]
)
def test_rounding_is_tolerated_and_no_more(value, wrong):
    assert TASK.problem(np.array([[0.5, value], [0.5, 0.5]]))[0].tolist() == [wrong, False]


def test_rows_do_not_sum_to_one_and_targets_are_the_labels():
    assert not TASK.sums_to_one
    assert not TASK.noisy
    assert TASK.trust == "stratified"
    y = flags(4, 3).astype(np.float32)
    assert TASK.targets(y, 3) is y


def test_distance_is_the_mean_binary_cross_entropy():
    f, psi = probabilities(20, 3), probabilities(20, 3, seed=1)
    assert TASK.distance(f, psi) == pytest.approx(slow_distance(f, psi), rel=1e-5)


def test_distance_of_a_certain_mistake_is_large_but_finite():
    f, psi = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    assert TASK.distance(f, psi) == pytest.approx(-math.log(1e-8))
    assert TASK.distance(f, f) == 0


def test_for_trust_every_sample_and_label_is_a_distribution_over_no_and_yes():
    f = probabilities(2, 4, 3)
    pairs = TASK.probabilities(f)
    assert pairs.shape == (2, 12, 2)
    for agent in range(2):
        for sample in range(4):
            for label in range(3):
                p = f[agent, sample, label]
                assert pairs[agent, 3 * sample + label].tolist() == [1 - p, p]


def test_every_label_is_a_question_and_the_answers_join_to_the_predictions():
    targets = probabilities(7, 3)
    questions = TASK.questions(targets)
    assert len(questions) == 3
    for label, question in enumerate(questions):
        np.testing.assert_array_equal(question, np.stack([1 - targets[:, label], targets[:, label]], axis=1))
    np.testing.assert_array_equal(TASK.join(questions), targets)


def test_predictions_of_a_network_are_the_sigmoid_of_its_output():
    out = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    slow = [[1 / (1 + math.exp(-v)) for v in row] for row in out.tolist()]
    np.testing.assert_allclose(TASK.predictions(out).numpy(), slow, rtol=1e-6)


def test_loss_is_the_distance_of_the_sigmoid():
    out, psi = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), probabilities(8, 3)
    slow = slow_distance(TASK.predictions(out.double()).numpy(), psi)
    assert float(TASK.loss(out, torch.from_numpy(psi))) == pytest.approx(slow, rel=1e-5)


def test_the_gradient_of_the_stacked_loss_is_that_of_autograd():
    out = torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.from_numpy(probabilities(4, 6, 3).astype(np.float64))
    plain = out.clone().requires_grad_()
    rows = functional.binary_cross_entropy_with_logits(plain, target, reduction="none").sum(dim=2) / 3
    rows.sum().backward()
    loss, gradient = TASK.stacked_loss(out.clone(), target)
    torch.testing.assert_close(loss, rows.detach())
    torch.testing.assert_close(gradient, plain.grad)
    each = torch.stack([TASK.loss(o, t) for o, t in zip(out, target, strict=True)])
    torch.testing.assert_close(loss.mean(dim=1), each)


def test_accuracy_counts_labels_and_subset_accuracy_samples_with_all_labels_right():
    f, y = probabilities(200, 3), flags(200, 3)
    right = [[(p > 0.5) == bool(q) for p, q in zip(a, b, strict=True)] for a, b in zip(f, y, strict=True)]
    assert score("accuracy").measure(f, y) == pytest.approx(sum(map(sum, right)) / 600)
    assert score("subset_accuracy").measure(f, y) == sum(map(all, right)) / 200


def test_accuracies_are_those_of_sklearn():
    f, y = probabilities(200, 3), flags(200, 3)
    assert score("accuracy").measure(f, y) == pytest.approx(1 - hamming_loss(y, f > 0.5))
    assert score("subset_accuracy").measure(f, y) == accuracy_score(y, f > 0.5)


def test_auc_and_log_loss_are_means_over_labels_and_those_of_sklearn():
    f, y = probabilities(200, 3), flags(200, 3)
    assert score("auc").measure(f, y) == pytest.approx(roc_auc_score(y, f, average="macro"), rel=1e-9)
    theirs = [log_loss(y[:, k], f[:, k].astype(np.float64)) for k in range(3)]
    assert score("log_loss").measure(f, y) == pytest.approx(sum(theirs) / 3, rel=1e-5)


def test_calibration_error_is_the_mean_over_labels():
    f, y = probabilities(200, 3), flags(200, 3)
    slow = [metrics.calibration_error(np.stack([1 - f[:, k], f[:, k]], axis=1), y[:, k]) for k in range(3)]
    assert score("calibration_error").measure(f, y) == pytest.approx(sum(slow) / 3)


def test_auc_leaves_out_labels_that_all_or_no_samples_have():
    f, y = probabilities(50, 3), flags(50, 3)
    y[:, 0], y[:, 2] = 1, 0
    assert score("auc").measure(f, y) == pytest.approx(roc_auc_score(y[:, 1], f[:, 1]), rel=1e-9)
    assert math.isnan(score("auc").measure(f[:, ::2], y[:, ::2]))


def test_higher_is_better_for_all_but_the_losses():
    assert TASK.scores[0].name == "accuracy"
    y = flags(30, 3)
    good, poor = np.where(y, 0.9, 0.1), np.where(y, 0.1, 0.9)
    for one in TASK.scores:
        assert (one.measure(good, y) > one.measure(poor, y)) == one.higher_is_better, one.name
        assert one.measure(good, y.astype(np.float32)) == one.measure(good, y)
