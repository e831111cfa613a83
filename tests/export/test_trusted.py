"""Estimators as bytes: what is made from them, and what never is."""

import functools
import os

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from consilience.base.errors import ConsilienceError
from consilience.export.trusted import dump, load
from tests.export.conftest import X, Y


def test_an_estimator_comes_back_as_it_was():
    fitted = LogisticRegression().fit(X, Y)
    np.testing.assert_array_equal(load(dump(fitted, "a"), "a.skops").predict_proba(X), fitted.predict_proba(X))


def test_a_function_of_the_users_is_not_stored():
    with pytest.raises(
        ConsilienceError, match=r"agent 'a': FunctionTransformer holds .*, which cannot be stored safely"
    ):
        dump(FunctionTransformer(os.path.abspath), "agent 'a'")


@pytest.mark.parametrize("thing", [FunctionTransformer(os.path.abspath), functools.partial(os.path.abspath, "x")])
def test_a_file_that_names_a_function_is_not_loaded(thing):
    with pytest.raises(ConsilienceError):
        load(skops.io.dumps(thing), "model.skops")


def test_a_file_that_grows_too_much_is_not_unpacked(monkeypatch):
    monkeypatch.setattr("consilience.export.trusted.SMALL", 10)
    monkeypatch.setattr("consilience.export.trusted.MOST_PACKED", 0)
    with pytest.raises(ConsilienceError, match="would be unpacked from"):
        load(dump(LogisticRegression().fit(X, Y), "a"), "model.skops")
