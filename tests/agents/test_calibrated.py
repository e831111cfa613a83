"""Which model predicts, by what it is asked for."""

import numpy as np
import pytest

from consilience.agents.calibrated import MODELS, check_model, predict_at, sets_of
from consilience.base.errors import ConsilienceError

X = np.zeros((2, 3))


def together(rows):
    return np.full((len(rows), 2), 0.5)


def alone(rows):
    return np.tile([0.2, 0.8], (len(rows), 1))


def test_without_a_calibration_there_are_the_trained_models_as_they_are():
    np.testing.assert_array_equal(predict_at("agent 'a'", "together", X, together, alone, None), together(X))
    np.testing.assert_array_equal(predict_at("agent 'a'", "alone", X, together, alone, None), alone(X))


@pytest.mark.parametrize("at", ["home", "target"])
def test_a_model_that_nothing_was_kept_for_is_refused(at):
    with pytest.raises(ConsilienceError, match=f"agent 'a' has no {at} model: nothing was kept to calibrate it by"):
        predict_at("agent 'a'", at, X, together, alone, None)


def test_a_copy_that_nobody_trained_is_refused():
    with pytest.raises(ConsilienceError, match="agent 'a' has no copy that trained alone"):
        predict_at("agent 'a'", "alone", X, together, None, None)


def test_a_name_that_is_no_model_is_refused_with_those_there_are():
    assert all(check_model(name) is None for name in MODELS)
    with pytest.raises(ConsilienceError, match=r"there is no model for 'hom'.*home"):
        check_model("hom")


@pytest.mark.parametrize(("at", "coverage"), [("together", 0.9), ("home", 1.0), ("home", 0.9)])
def test_prediction_sets_need_a_calibration_and_a_coverage(at, coverage):
    with pytest.raises(ConsilienceError, match="there are no prediction sets"):
        sets_of(None, together(X), at, coverage)
