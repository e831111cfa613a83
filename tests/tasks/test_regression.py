"""Values: their labels, predictions, losses and scores."""

import math

import numpy as np
import pytest
import torch

from consilience import ConsilienceError
from consilience.tasks import TASKS

TASK = TASKS.find("regression")


def values(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def slow_distance(f, psi):
    rows = [sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p, q in zip(f.tolist(), psi.tolist(), strict=True)]
    return sum(rows) / len(rows)


@pytest.mark.parametrize(("y", "shape"), [([1, 2, 3], (3, 1)), ([[1.5, 2.5]], (1, 2)), (np.ones((2, 2, 2)), (2, 4))])
def test_labels_are_a_table_of_single_precision(y, shape):
    labels = TASK.labels(np.asarray(y))
    assert labels.dtype == np.float32
    assert labels.shape == shape
    assert TASK.outputs(labels) == shape[1]
    np.testing.assert_array_equal(labels.ravel(), np.asarray(y, np.float32).ravel())


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(wrong):
    with pytest.raises(ConsilienceError, match=r"some training values are not finite\. Remove those samples"):
        TASK.labels(np.array([1.0, wrong]))


def test_words_are_refused_with_advice():
    with pytest.raises(ConsilienceError, match=r"labels must be numbers \(got <U4\)"):
        TASK.labels(np.array(["high", "low"]))


def test_values_have_no_classes_nor_probabilities_and_agents_measure_their_noise():
    assert TASK.counts(values(5, 1)) == []
    assert TASK.probabilities(values(2, 5, 1)) is None
    assert TASK.noisy
    assert not TASK.sums_to_one
    assert TASK.trust == "gaussian"


def test_any_finite_value_is_a_prediction():
    bad, _ = TASK.problem(values(5, 2) * 1e6)
    assert bad.tolist() == [False] * 5


def test_targets_are_the_values():
    y = values(5, 2)
    assert TASK.targets(y, 2) is y


def test_distance_is_the_mean_squared_distance():
    f, psi = values(20, 3), values(20, 3, seed=1)
    assert TASK.distance(f, psi) == pytest.approx(slow_distance(f, psi), rel=1e-6)


def test_the_one_question_is_about_all_values():
    y = values(5, 2)
    (question,) = TASK.questions(y)
    assert question is y
    np.testing.assert_array_equal(TASK.join([question]), y)


def test_loss_is_the_distance_and_a_network_returns_values():
    out, target = torch.from_numpy(values(8, 2)), torch.from_numpy(values(8, 2, seed=1))
    assert TASK.predictions(out) is out
    assert float(TASK.loss(out, target)) == pytest.approx(slow_distance(out.numpy(), target.numpy()), rel=1e-6)


def test_the_gradient_of_the_stacked_loss_is_that_of_autograd():
    out, target = torch.from_numpy(values(4, 6, 2)), torch.from_numpy(values(4, 6, 2, seed=1))
    plain = out.clone().requires_grad_()
    total = sum(TASK.loss(o, t) * len(o) for o, t in zip(plain, target, strict=True))
    total.backward()
    loss, gradient = TASK.stacked_loss(out.clone(), target)
    assert loss.shape == (4, 6)
    torch.testing.assert_close(loss.sum(), total.detach())
    torch.testing.assert_close(loss[1], (out[1] - target[1]).square().sum(dim=1))
    torch.testing.assert_close(gradient, plain.grad)


def test_the_score_is_the_root_mean_squared_error_and_lower_is_better():
    (score,) = TASK.scores
    f, y = values(20, 2), values(20, 2, seed=1)
    squares = [(a - b) ** 2 for a, b in zip(f.ravel().tolist(), y.ravel().tolist(), strict=True)]
    assert score.name == "rmse"
    assert score.measure(f, y) == pytest.approx(math.sqrt(sum(squares) / 40), rel=1e-6)
    assert not score.higher_is_better
