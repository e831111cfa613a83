"""Capabilities are asked for, never classes."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

from consilience import ConsilienceError, SklearnAgent, TorchAgent
from consilience.agents.protocol import AcceptsMoreClasses, Averageable, Publishes, implements, missing, published
from consilience.extend import TASKS, Agent, Wrapper
from consilience.tasks.protocol import labelled
from tests.conftest import CLASSES, FEATURES, blobs

X, Y = blobs(20, seed=1)


def torch_agent() -> TorchAgent:
    return TorchAgent(nn.Linear(FEATURES, CLASSES), X, Y, "a")


def sklearn_agent() -> SklearnAgent:
    return SklearnAgent(LogisticRegression(), X, Y, "a")


class Liar(Wrapper):
    def publish(self, shared):
        return self.agent.predict(shared)[:, ::-1]


@pytest.mark.parametrize("make", [torch_agent, sklearn_agent])
def test_our_agents_have_all_that_an_agent_needs(make):
    assert missing(make(), Agent) == []
    assert implements(make(), Agent)


def test_what_is_missing_is_named_in_the_order_of_the_protocol():
    class Half:
        name, task, outputs, kind = "a", None, 2, "half"

        def predict(self, x):
            return x

        def state(self):
            return {}

    assert missing(Half(), Agent) == ["samples", "class_counts", "parameters", "noise", "train", "restore"]
    assert not implements(Half(), Agent)


def test_weights_can_be_averaged_of_torch_models_and_not_of_estimators():
    assert implements(torch_agent(), Averageable)
    assert missing(sklearn_agent(), Averageable) == [
        "steps",
        "lr",
        "trained_names",
        "weights",
        "set_weights",
        "reset_optimizer",
        "train_alone",
    ]


def test_a_wrapper_can_what_its_agent_can():
    assert implements(Wrapper(torch_agent()), Averageable)
    assert not implements(Wrapper(sklearn_agent()), Averageable)
    assert implements(Wrapper(Wrapper(sklearn_agent())), AcceptsMoreClasses)
    assert not implements(Wrapper(torch_agent()), AcceptsMoreClasses)
    assert implements(Wrapper(Liar(torch_agent())), Publishes)


def test_an_agent_says_what_it_predicts_unless_it_publishes_something_else():
    agent = sklearn_agent()
    assert not implements(agent, Publishes)
    np.testing.assert_array_equal(published(agent, X), agent.predict(X))
    np.testing.assert_array_equal(published(Liar(agent), X), agent.predict(X)[:, ::-1])


def test_an_estimator_learns_of_classes_that_its_own_data_do_not_show():
    agent = SklearnAgent(LogisticRegression(), X, Y % 2, "a")
    before = agent.predict(X)
    agent.accept_classes(4)
    after = agent.predict(X)
    assert agent.outputs == 4
    np.testing.assert_array_equal(after[:, :2], before)
    assert not after[:, 2:].any()
    agent.accept_classes(3)
    assert agent.outputs == 4


def test_values_and_labels_are_as_many_as_they_are():
    for agent in (
        SklearnAgent(LinearRegression(), X, X[:, :2], "a"),
        SklearnAgent(LogisticRegression(), X, np.stack([Y == 0, Y == 1], axis=1), "a"),
    ):
        agent.accept_classes(5)
        assert agent.outputs == 2
        assert agent.predict(X).shape == (20, 2)


@pytest.mark.parametrize(
    ("name", "x", "y", "says"),
    [
        ("b", np.zeros((0, 3)), np.zeros(0), r"^agent 'b' has no training data\. Leave it out, or give it samples\.$"),
        ("", np.zeros((0, 3)), np.zeros(0), r"^an agent has no training data"),
        ("b", np.zeros((4, 3)), np.zeros(3), r"^agent 'b': 4 samples but 3 labels\. Give one label per sample\.$"),
        ("b", np.zeros((2, 3)), np.array([0.5, 1]), r"^agent 'b': labels must be class numbers"),
    ],
)
def test_private_data_that_cannot_be_are_refused_with_the_agents_name(name, x, y, says):
    with pytest.raises(ConsilienceError, match=says):
        labelled(name, TASKS.find("classification"), x, y)


def test_private_data_may_be_lists():
    data = labelled("a", TASKS.find("classification"), [[1.0], [2.0]], [0, 2])
    assert isinstance(data.x, np.ndarray)
    assert data.y.dtype == np.int64
    assert (data.outputs, data.counts) == (3, [1, 0, 1])
