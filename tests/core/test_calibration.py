"""Calibration against plain loops, and its theorems."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.core import calibration as core
from consilience.core import metrics


def sample(seed, samples=60, classes=4, k=2):
    draw = np.random.default_rng(seed)
    terms = np.log(draw.dirichlet(np.ones(classes), size=(k, samples)))
    return terms, draw.integers(classes, size=samples)


def slow_objective(w, terms, y, prior, strength):
    total = sum(s / 2 * (a - b) ** 2 for a, b, s in zip(w, prior, strength, strict=True))
    for x, label in enumerate(y):
        z = [sum(w[k] * terms[k][x][c] for k in range(len(w))) for c in range(terms.shape[2])]
        total -= z[label] - math.log(sum(math.exp(value) for value in z))
    return total


def test_weights_minimise_the_penalised_log_loss():
    (terms, y), prior, strength = sample(0), np.array([1.3, 0.1]), np.array([5.0, 2.0])
    w = core.pool_weights(terms, y, prior, strength)
    best = slow_objective(w, terms, y, prior, strength)
    for k in range(2):
        for move in (-1e-3, 1e-3):
            assert slow_objective(w + move * np.eye(2)[k], terms, y, prior, strength) > best


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 30), st.floats(0.1, 50))
def test_on_the_rows_that_it_is_fitted_to_it_is_never_worse_than_its_prior(seed, samples, strength):
    terms, y = sample(seed, samples)
    prior, strengths = np.array([1.3, 0.05]), np.full(2, strength)
    w = core.pool_weights(terms, y, prior, strengths)
    losses = [metrics.log_loss(core.pool(weights, terms), y) for weights in (w, prior)]
    assert losses[0] <= losses[1] + 1e-9


def test_without_rows_the_weights_are_the_prior():
    prior = np.array([1.3, 0.3])
    np.testing.assert_array_equal(core.pool_weights(np.zeros((2, 0, 3)), np.zeros(0, int), prior, np.ones(2)), prior)


def test_a_model_that_hedges_gets_a_temperature_below_one():
    draw = np.random.default_rng(3)
    f = draw.dirichlet(np.full(3, 0.4), size=4000)
    y = np.array([draw.choice(3, p=row) for row in f])
    hedged = np.sqrt(f) / np.sqrt(f).sum(axis=1, keepdims=True)
    (w,) = core.pool_weights(core.log_term(hedged)[None], y, np.ones(1), np.ones(1))
    assert 1.8 < w < 2.2
    again = core.pool(np.array([w]), core.log_term(hedged)[None])
    assert metrics.calibration_error(again, y) < metrics.calibration_error(hedged, y) / 2


def test_a_mixture_of_values_is_the_best_one():
    draw = np.random.default_rng(4)
    first, second, y = draw.normal(size=(3, 50, 2))
    a = core.mixture_weight(first, second, y, 0.1, 5.0)
    v = np.mean(np.square(second - first).sum(axis=1))

    def objective(a):
        return np.square(y - (1 - a) * first - a * second).sum() + 5.0 * v * (a - 0.1) ** 2

    assert objective(a) <= min(objective(b) for b in np.linspace(0, 1, 101)) + 1e-9
    assert core.mixture_weight(first, first, y, 0.1, 5.0) == 0.1


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_split_conformal_sets_hold_the_truth_as_often_as_promised(coverage):
    draw, covered = np.random.default_rng(5), []
    for _ in range(300):
        f = draw.dirichlet(np.full(4, 0.5), size=120)
        y = np.array([draw.choice(4, p=row) for row in f])
        threshold = core.conformal_threshold(core.class_scores(f[:60], y[:60]), coverage)
        covered.append(core.prediction_sets(f[60:], threshold)[np.arange(60), y[60:]].mean())
    assert coverage - 0.01 <= np.mean(covered) <= coverage + 0.03


def test_the_threshold_is_the_rank_that_the_theorem_names():
    scores = np.random.default_rng(6).random(37)
    for coverage in (0.5, 0.9, 0.97):
        rank = math.ceil(38 * coverage)
        wanted = sorted(scores)[rank - 1] if rank <= 37 else math.inf
        assert core.conformal_threshold(scores, coverage) == wanted


def test_reliability_has_the_counts_and_means_of_each_bin():
    draw = np.random.default_rng(7)
    sure, right = draw.random(200), draw.random(200) < 0.5
    for number, (samples, mean, share) in enumerate(core.reliability(sure, right, 5)):
        inside = [i for i in range(200) if number / 5 < sure[i] <= (number + 1) / 5]
        assert samples == len(inside)
        assert mean == pytest.approx(sum(sure[i] for i in inside) / len(inside))
        assert share == pytest.approx(sum(right[i] for i in inside) / len(inside))
