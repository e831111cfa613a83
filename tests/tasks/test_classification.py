"""One class of several: its labels, predictions, losses and scores."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, recall_score, roc_auc_score
from torch.nn import functional

from consilience import ConsilienceError
from consilience.core import metrics
from consilience.tasks import TASKS

TASK = TASKS.find("classification")


def probabilities(*shape, classes=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), shape).astype(np.float32)


@pytest.mark.parametrize("y", [[0, 2, 1], [0.0, 2.0, 1.0], np.array([0, 2, 1], np.uint8)])
def test_labels_are_whole_numbers_of_any_type(y):
    labels = TASK.labels(np.asarray(y))
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "y", [["a", "b"], [0.5, 1.0], [-1, 0], [[0], [1]], [np.nan, 1.0], [np.inf, 1.0], [True, False]], ids=str
)
def test_other_labels_are_refused_with_advice(y):
    with pytest.raises(ConsilienceError, match=r"labels must be class numbers 0, 1, 2, .*Encode names with sklearn"):
        TASK.labels(np.array(y))


def test_outputs_and_counts_follow_from_the_labels():
    y = np.array([0, 3, 3, 1])
    assert TASK.outputs(y) == 4
    assert TASK.counts(y) == [1, 1, 0, 2]


def test_rows_that_are_no_probabilities_are_found_and_the_first_is_described():
    f = np.array([[0.5, 0.5], [0.7, 0.2], [1.5, -0.5], [0.3, 0.7]])
    bad, what = TASK.problem(f)
    assert bad.tolist() == [False, True, True, False]
    assert what == ("not probabilities (first: row 1, smallest 0.2, sum 0.9). Did it send logits? Apply softmax.")


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ([0.5, 0.5009], False),
        ([0.5, 0.4991], False),
        ([0.5, 0.5012], True),
        ([0.5, 0.4988], True),
        ([1.0000005, -0.0000005], False),
        ([1.000002, -0.000002], True),
    ],
)
def test_rounding_is_tolerated_and_no_more(row, wrong):
    assert TASK.problem(np.array([[0.5, 0.5], row]))[0].tolist() == [False, wrong]


def test_targets_are_one_hot_and_may_have_more_classes_than_the_labels():
    targets = TASK.targets(np.array([1, 0]), 3)
    assert targets.dtype == np.float32
    assert targets.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_distance_is_the_mean_cross_entropy():
    f, psi = probabilities(20), probabilities(20, seed=1)
    slow = [-sum(q * math.log(p) for p, q in zip(a, b, strict=True)) for a, b in zip(f, psi, strict=True)]
    assert TASK.distance(f, psi) == pytest.approx(sum(slow) / 20, rel=1e-6)


def test_probabilities_for_trust_are_the_predictions_themselves():
    f = probabilities(4, 5)
    assert TASK.probabilities(f) is f


def test_the_one_question_is_which_class_and_its_answer_the_prediction():
    targets = probabilities(7)
    (question,) = TASK.questions(targets)
    assert question is targets
    np.testing.assert_array_equal(TASK.join([question]), targets)


def test_predictions_of_a_network_are_the_softmax_of_its_output():
    out = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    for row, logits in zip(TASK.predictions(out).tolist(), out.tolist(), strict=True):
        total = sum(math.exp(v) for v in logits)
        assert row == pytest.approx([math.exp(v) / total for v in logits], rel=1e-6)


@pytest.mark.parametrize("hard", [True, False])
def test_loss_is_the_cross_entropy_of_the_softmax_with_classes_or_probabilities(hard):
    out = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    y = np.arange(8) % 3
    psi = TASK.targets(y, 3) if hard else probabilities(8)
    target = torch.from_numpy(y if hard else psi)
    total = 0.0
    for logits, row in zip(out.tolist(), psi.tolist(), strict=True):
        norm = math.log(sum(math.exp(v) for v in logits))
        total -= sum(p * (v - norm) for v, p in zip(logits, row, strict=True)) / 8
    assert float(TASK.loss(out, target)) == pytest.approx(total, rel=1e-6)
    assert TASK.distance(TASK.predictions(out).numpy(), psi) == pytest.approx(total, rel=1e-5)


def test_many_models_predict_what_each_predicts():
    out = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0)) * 20
    torch.testing.assert_close(TASK.stacked_predictions(out), torch.stack([TASK.predictions(own) for own in out]))


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_the_gradient_of_the_stacked_loss_is_that_of_autograd(scale):
    """Pseudo-labels in float16 sum to nearly one only: the gradient holds for any sum."""
    out = torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = torch.from_numpy(probabilities(4, 6).astype(np.float64)) * scale
    plain = out.clone().requires_grad_()
    rows = torch.stack([functional.cross_entropy(o, t, reduction="none") for o, t in zip(plain, target, strict=True)])
    rows.sum().backward()
    loss, gradient = TASK.stacked_loss(out.clone(), target)
    torch.testing.assert_close(loss, rows.detach())
    torch.testing.assert_close(gradient, plain.grad)


def test_scores_are_those_of_sklearn():
    f, y = probabilities(90), np.random.default_rng(3).integers(3, size=90)
    theirs = {
        "accuracy": accuracy_score(y, f.argmax(axis=1)),
        "balanced_accuracy": balanced_accuracy_score(y, f.argmax(axis=1)),
        "auc": roc_auc_score(y, f.astype(np.float64), multi_class="ovr"),
        "log_loss": log_loss(y, f),
    }
    found = {score.name: score.measure(f, y) for score in TASK.scores}
    two = ["sensitivity", "specificity"]
    assert list(found) == ["accuracy", "balanced_accuracy", "auc", *two, "log_loss", "calibration_error"]
    assert all(np.isnan(found[name]) for name in two)
    for name, value in theirs.items():
        assert found[name] == pytest.approx(value, rel=1e-6), name


def test_higher_is_better_for_all_but_the_losses():
    lower = [score.name for score in TASK.scores if not score.higher_is_better]
    assert lower == ["log_loss", "calibration_error"]
    truth = np.array([0, 1, 2, 0, 1, 2])
    good, poor = np.eye(3)[truth], np.eye(3)[(truth + 1) % 3]
    for score in TASK.scores:
        better, worse = score.measure(good, truth), score.measure(poor, truth)
        if score.name in ("sensitivity", "specificity"):
            continue  # of two classes
        assert (better > worse) == score.higher_is_better, score.name


def test_sensitivity_and_specificity_are_those_of_sklearn():
    draw = np.random.default_rng(0)
    y, sure = draw.integers(2, size=80), draw.random(80).astype(np.float32)
    f = np.stack([1 - sure, sure], axis=1)
    found = {score.name: score.measure(f, y) for score in TASK.scores}
    assert found["sensitivity"] == pytest.approx(recall_score(y, f.argmax(axis=1)))
    assert found["specificity"] == pytest.approx(recall_score(y, f.argmax(axis=1), pos_label=0))
    assert np.isnan(metrics.sensitivity(f, np.zeros(80, int)))
