"""The owner's filter: what a site's predictions look like when they leave it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilience import ConsilienceError
from consilience.federation.outgoing import Outgoing
from consilience.tasks import TASKS

CLASSIFICATION = TASKS.find("classification")


@given(st.integers(2, 12), st.integers(0, 13), st.integers(0, 7), st.integers(0, 1000))
def test_filtered_rows_are_probabilities_and_tell_no_more_than_the_owner_allows(classes, most, decimals, seed):
    f = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), 20).astype(np.float32)
    out = Outgoing(most, decimals).reduced(f)
    bad, why = CLASSIFICATION.problem(out)
    assert not bad.any(), why
    if 0 < most < classes:
        smallest = np.isclose(out, out.min(axis=1, keepdims=True), atol=1e-7).sum(axis=1)
        assert (smallest >= classes - most).all(), "all classes but the most probable are alike"
    if decimals == 1 and most in (0, classes):
        shown = f.astype(np.float64).round(1)
        np.testing.assert_allclose(out * shown.sum(axis=1, keepdims=True), shown, atol=1e-6 + (shown.sum(1) == 0).max())


def test_without_a_filter_predictions_leave_as_they_are():
    f = np.random.default_rng(0).dirichlet(np.ones(4), 5)
    assert Outgoing().reduced(f) is f
    np.testing.assert_allclose(Outgoing(decimals=2).reduced(f * 100, "regression"), (f * 100).round(2), rtol=1e-6)


def test_nothing_leaves_above_the_owners_epsilon_or_without_a_promise():
    spent = [0.5]
    agent = SimpleNamespace(task=CLASSIFICATION, mechanism=SimpleNamespace(record=lambda: spent[0]))
    release = Outgoing(epsilon=1.0).release(agent)
    f = np.full((3, 2), 0.5, np.float32)
    np.testing.assert_array_equal(release(f), f)
    spent[0] = 1.2
    with pytest.raises(ConsilienceError, match=r"nothing more leaves this site: epsilon 1\.200 .* up to 1 "):
        release(f)
    with pytest.raises(ConsilienceError, match="the agent is not private"):
        Outgoing(epsilon=1.0).release(SimpleNamespace(task=CLASSIFICATION))(f)


def test_most_classes_are_for_classification_alone():
    with pytest.raises(ConsilienceError, match="the task is regression"):
        Outgoing(classes=2).release(SimpleNamespace(task=TASKS.find("regression")))
