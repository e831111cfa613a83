"""Models under their names: ours, and anyone's."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

from consilience import ConsilienceError, SklearnAgent, TorchAgent
from consilience.agents import models
from consilience.agents.models import COSTS, MODELS, UNKNOWN_COST, AgentSpec, Cost, build_agent, cost_of
from consilience.agents.training import Training
from consilience.extend import TASKS, estimator, network
from tests.conftest import CLASSES, FEATURES, blobs

X, Y = blobs(30, seed=1)
LINE = np.linspace(-2, 2, 40, dtype=np.float32)[:, None]


@pytest.fixture
def registries(monkeypatch):
    """What a test registers is forgotten after it."""
    MODELS.names()
    monkeypatch.setattr(MODELS, "_found", dict(MODELS._found))
    monkeypatch.setattr(models, "COSTS", dict(COSTS))


def order(model, x=X, y=Y, task="classification", outputs=CLASSES, **more):
    return AgentSpec("a", model, x, y, outputs, TASKS.find(task), **more)


def test_networks_become_torch_agents_that_train_as_ordered():
    training = Training(epochs=3, batch=7, shared_batch=9, lr=0.02, batched=False)
    agent = build_agent(order("mlp", training=training, seed=5))
    assert isinstance(agent, TorchAgent)
    assert (agent.name, agent.kind, agent.outputs, agent.seed) == ("a", "mlp", CLASSES, 5)
    assert (agent.training, agent.lr) == (training, 0.02)
    assert agent.parameters == FEATURES * 64 + 64 + 64 * CLASSES + CLASSES
    assert build_agent(order("linear")).parameters == FEATURES * CLASSES + CLASSES


def test_first_weights_depend_on_seed_and_name_alone():
    torch.manual_seed(1)
    one = build_agent(order("mlp")).weights()
    torch.manual_seed(2)
    expected = torch.rand(1)
    torch.manual_seed(2)
    two = build_agent(order("mlp", *blobs(20, seed=9))).weights()
    assert torch.rand(1) == expected
    assert all(np.array_equal(one[key], two[key]) for key in one)
    for other in (
        build_agent(order("mlp", seed=1)),
        build_agent(AgentSpec("b", "mlp", X, Y, CLASSES, TASKS.find("classification"))),
    ):
        assert not np.array_equal(other.weights()["1.weight"], one["1.weight"])


@pytest.mark.parametrize("name", ["logistic", "neighbours", "forest", "boosting"])
def test_estimators_become_agents_of_sklearn(name):
    agent = build_agent(order(name, outputs=5, seed=3))
    assert isinstance(agent, SklearnAgent)
    assert (agent.name, agent.kind, agent.outputs, agent.seed) == ("a", name, 5, 3)
    assert agent.predict(X).shape == (30, 5)


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_a_number_behind_the_name_is_the_degree_of_the_polynomial(degree):
    """Least squares on powers finds a polynomial of its degree, and not one of a higher."""
    for true in (degree, degree + 1):
        agent = build_agent(order(f"polynomial-{degree}", LINE, LINE**true, "regression", 1))
        assert agent.kind == f"polynomial-{degree}"
        found = np.abs(agent.predict(LINE) - LINE**true).max() < 1e-3
        assert found == (true == degree)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("perceptron", r"unknown model 'perceptron'\. Known: boosting, cnn, .*wavelets\."),
        ("logistics", r"unknown model 'logistics'\. Did you mean 'logistic'\? Known"),
        ("forest-5", r"the model 'forest' takes no number; 'forest-5' is not known"),
        ("mlp-64", r"the model 'mlp' takes no number; 'mlp-64' is not known"),
        ("polynomial", r"the model 'polynomial' needs a number, such as polynomial-4"),
        ("polynomial-x", r"unknown model 'polynomial-x'. Did you mean 'polynomial'\?"),
        ("tree-4", r"unknown model 'tree-4'"),
    ],
)
def test_unknown_models_and_numbers_are_refused(model, says):
    with pytest.raises(ConsilienceError, match=says):
        build_agent(order(model))


def test_anyone_may_register_a_network(registries):
    asked = []

    @network("wide", Cost(3, 0.5))
    def wide(shape, outputs):
        asked.append((shape, outputs))
        return nn.Sequential(nn.Flatten(), nn.Linear(16, outputs))

    x = np.zeros((6, 1, 4, 4), np.float32)
    agent = build_agent(order("wide", x, np.arange(6) % 3))
    assert asked == [((1, 4, 4), CLASSES)]
    assert isinstance(agent, TorchAgent)
    assert agent.kind == "wide"
    assert cost_of("wide") == Cost(3, 0.5)
    assert isinstance(wide((16,), 2), nn.Module)


def test_anyone_may_register_an_estimator_with_or_without_a_number(registries):
    @estimator("ridge")
    def ridge(strength=1):
        return LogisticRegression(C=1 / strength)

    assert build_agent(order("ridge"))._estimator.C == 1
    assert build_agent(order("ridge-4"))._estimator.C == 0.25
    assert cost_of("ridge-4") == UNKNOWN_COST


def test_a_whole_name_comes_before_a_name_with_a_number(registries):
    @estimator("net")
    def net(number=0):
        return LogisticRegression(C=1 + number)

    @network("net-18")
    def net18(shape, outputs):
        return nn.Linear(FEATURES, outputs)

    assert isinstance(build_agent(order("net-18")), TorchAgent)
    assert build_agent(order("net-17"))._estimator.C == 18


def test_an_error_inside_a_model_is_its_own(registries):
    @estimator("broken")
    def broken(number=1):
        raise TypeError("not a word about numbers")

    for model in ("broken", "broken-3"):
        with pytest.raises(TypeError, match="not a word about numbers"):
            build_agent(order(model))


def test_a_whole_agent_may_be_built_from_an_order(registries):
    @MODELS.add("constant")
    def constant(order):
        return SklearnAgent(LinearRegression(), order.x, order.y, order.name, kind=f"{order.model}!")

    agent = build_agent(order("constant-7", LINE, LINE, "regression", 1))
    assert agent.kind == "constant-7!"
