"""Scores in one pass are those of one agent after another, to the bit."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilience.core import many_scores, metrics
from consilience.core.many_scores import Predictions

PAIRS = {
    name: (getattr(many_scores, name), getattr(metrics, name))
    for name in (
        "accuracy",
        "balanced_accuracy",
        "auc",
        "sensitivity",
        "specificity",
        "log_loss",
        "calibration_error",
    )
} | {"accuracy_on": (partial(many_scores.accuracy_on, 1), partial(metrics.accuracy_on, 1))}


def predictions(seed, agents, samples, classes, kind):
    """Probabilities without ties, with many ties, of certainty alone, and signed ones with both zeros."""
    draw = np.random.default_rng(seed)
    f = draw.dirichlet(np.ones(classes), (agents, samples)).astype(np.float32)
    if kind == "coarse":
        f = np.round(f, 1)
    elif kind == "certain":
        f = np.eye(classes, dtype=np.float32)[draw.integers(0, classes, (agents, samples))]
    elif kind == "signed":
        f = np.round(f - 0.5, 1) * draw.choice(np.array([-1, 1], np.float32), f.shape)
    return f, draw.integers(0, classes, samples)


@pytest.mark.parametrize("name", PAIRS)
@given(
    seed=st.integers(0, 2**32 - 1),
    agents=st.integers(1, 40),
    samples=st.integers(1, 300),
    classes=st.integers(2, 12),
    kind=st.sampled_from(["fine", "coarse", "certain", "signed"]),
)
@settings(deadline=None)
def test_one_pass_gives_the_bits_of_one_after_another(name, seed, agents, samples, classes, kind):
    f, y = predictions(seed, agents, samples, classes, kind)
    together, alone = PAIRS[name]
    assert Predictions(f, y).fits
    np.testing.assert_array_equal(together(Predictions(f, y)), [alone(own, y) for own in f])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("samples", [1000, many_scores.MOST_SAMPLES])
def test_many_samples_give_the_same_bits(name, samples):
    for classes in (2, 10):
        f, y = predictions(0, 5, samples, classes, "fine")
        together, alone = PAIRS[name]
        np.testing.assert_array_equal(together(Predictions(f, y)), [alone(own, y) for own in f])


def test_more_samples_and_other_precisions_do_not_fit():
    f, y = predictions(0, 1, many_scores.MOST_SAMPLES + 1, 2, "fine")
    assert not Predictions(f, y).fits
    assert Predictions(f[:, :9], y[:9]).fits
    assert not Predictions(f[:, :9].astype(float), y[:9]).fits
    assert not Predictions(f[:, :0], y[:0]).fits
