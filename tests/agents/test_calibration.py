"""Calibration of agents of every task."""

import numpy as np
import pytest

from consilience.agents.calibration import calibrated, calibration_from
from consilience.base.errors import ConsilienceError
from consilience.tasks import task_named


def classes(samples=200, seed=0):
    """Predictions of two models, the second better, and labels."""
    draw = np.random.default_rng(seed)
    y = draw.integers(3, size=samples)
    strong, weak = (np.exp(gain * np.eye(3)[y] + draw.normal(0, 1, (samples, 3))).astype(np.float32) for gain in (3, 1))
    return y, *(f / f.sum(axis=1, keepdims=True) for f in (weak, strong))


def test_at_home_the_better_model_is_followed():
    y, weak, strong = classes()
    fitted = calibrated(task_named("classification"), [70, 70, 60], weak, y, strong)
    fresh, weak, strong = classes(2000, 1)
    right = [(f.argmax(axis=1) == fresh).mean() for f in (weak, strong, fitted.at_home(weak, strong))]
    assert right[2] >= right[1] - 0.01 > right[0]


def test_calibration_never_changes_the_most_probable_class():
    _, weak, _ = classes(30)
    wrong = calibrated(task_named("classification"), [10, 10, 10], weak, (weak.argmax(axis=1) + 1) % 3)
    np.testing.assert_array_equal(wrong.on_target(weak).argmax(axis=1), weak.argmax(axis=1))


def test_without_rows_kept_back_the_home_model_is_that_of_the_prior():
    task = task_named("classification")
    prior = calibrated(task, [70, 70, 60], has_alone=True)
    assert prior.home.shape == (1, 3) and prior.scores == {}
    with pytest.raises(ConsilienceError, match="kept_back"):
        prior.sets(np.full((1, 3), 1 / 3, np.float32), "home", 0.9)
    assert not calibrated(task, [70, 70, 60]).needs_alone


def test_the_model_alone_counts_more_at_home_among_many_classes():
    task = task_named("classification")
    two, ten = (calibrated(task, [20] * number, has_alone=True).home[0, 2] for number in (2, 10))
    assert 0 < two < ten < 1


def test_sets_hold_the_truth_in_new_rows():
    y, weak, strong = classes(400)
    fitted = calibrated(task_named("classification"), [130, 130, 140], weak, y, strong)
    fresh, weak, strong = classes(4000, 1)
    for place, f in (("home", fitted.at_home(weak, strong)), ("target", fitted.on_target(weak))):
        covered = fitted.sets(f, place, 0.9)[np.arange(4000), fresh].mean()
        assert 0.86 < covered < 0.94


def test_each_label_has_weights_of_its_own():
    draw = np.random.default_rng(2)
    y = (draw.random((300, 2)) < 0.5).astype(np.float32)
    f = np.clip(0.5 + np.array([0.1, 0.4]) * (2 * y - 1) * (draw.random((300, 2)) < 0.9), 0.05, 0.95)
    fitted = calibrated(task_named("multilabel"), [150, 150, 300], f.astype(np.float32), y)
    assert fitted.target.shape == (2, 1) and fitted.target[0, 0] > fitted.target[1, 0]
    assert fitted.at_home(f.astype(np.float32), None).shape == (300, 2)


def test_values_are_mixed_and_have_intervals():
    draw = np.random.default_rng(3)
    y = draw.normal(size=(400, 1)).astype(np.float32)
    rough, fine = (y + draw.normal(0, noise, y.shape).astype(np.float32) for noise in (1.0, 0.3))
    fitted = calibrated(task_named("regression"), [], rough[:200], y[:200], fine[:200])
    assert 0.7 < fitted.home[0, 0] <= 1 and fitted.needs_alone
    ends = fitted.sets(fitted.at_home(rough[200:], fine[200:]), "home", 0.9)
    inside = (ends[:, 0, 0] <= y[200:, 0]) & (y[200:, 0] <= ends[:, 0, 1])
    assert 0.84 < inside.mean() < 0.96
    np.testing.assert_array_equal(fitted.on_target(rough), rough)


@pytest.mark.parametrize("name", ["classification", "multilabel", "regression"])
def test_a_table_gives_the_same_calibration(name):
    task = task_named(name)
    counts, outputs = {"classification": ([3, 4], 2), "multilabel": ([3, 4, 9], 2), "regression": ([], 1)}[name]
    first = calibrated(task, counts, has_alone=True)
    again = calibration_from(first.table(), task, outputs)
    f = np.full((2, outputs), 0.5, np.float32)
    np.testing.assert_array_equal(first.at_home(f, f / 2 + 0.25), again.at_home(f, f / 2 + 0.25))


@pytest.mark.parametrize(
    "change", [{"home": [[1.0]]}, {"target": "x"}, {"frequency": [[float("nan"), 0.0]]}, {"scores": {"away": [[1.0]]}}]
)
def test_a_table_that_fits_no_task_is_refused(change):
    table = calibrated(task_named("classification"), [3, 4]).table() | change
    with pytest.raises(ConsilienceError, match="calibration"):
        calibration_from(table, task_named("classification"), 2)
