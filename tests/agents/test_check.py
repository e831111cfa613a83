"""The conformance suite: our own agents pass it, and a fault in anyone's is named in a sentence."""

import random
from copy import deepcopy

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from torch import nn

from consilience import ConsilienceError, SklearnAgent, TorchAgent, check_agent
from consilience.agents.models import MODELS, AgentSpec, build_agent
from consilience.agents.training import Training
from consilience.extend import TASKS, Wrapper
from tests.agents.broken import FAULTS, HasWeights, Nearest, Unfitted
from tests.conftest import CLASSES, FEATURES, blobs

X, Y = blobs(60, seed=3)
FLAGS = np.stack([Y == 0, X[:, 0] > 0, X[:, 1] > 0], axis=1).astype(int)


def network(*middle: nn.Module, outputs: int = CLASSES) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(FEATURES, 8), *deepcopy(middle), nn.ReLU(), nn.Linear(8, outputs))


@pytest.mark.parametrize(
    "middle", [(), (nn.Dropout(0.5),), (nn.BatchNorm1d(8),)], ids=["plain", "dropout", "batch norm"]
)
@pytest.mark.parametrize("task", ["classification", "regression", "multilabel"])
def test_torch_agents_conform(task, middle):
    y = {"classification": Y, "regression": X[:, :2] * 2, "multilabel": FLAGS}[task]
    outputs = 2 if task == "regression" else CLASSES
    check_agent(
        lambda x, y, name: TorchAgent(
            network(*middle, outputs=outputs), x, y, name, task=task, training=Training(epochs=2)
        ),
        X,
        y,
    )


def test_a_torch_agent_with_an_optimizer_of_torch_conforms():
    def make(x, y, name):
        return TorchAgent(network(), x, y, name, optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))

    check_agent(make, X, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        GaussianNB(),
        KNeighborsClassifier(3),
        RandomForestClassifier(5),
        HistGradientBoostingClassifier(max_iter=3),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("y", [Y, FLAGS], ids=["classification", "multilabel"])
def test_estimators_conform(estimator, y):
    check_agent(lambda x, y, name: SklearnAgent(estimator, x, y, name), X, y)


@pytest.mark.parametrize("estimator", [LinearRegression(), KNeighborsRegressor(3)], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("outputs", [1, 2])
def test_regressors_conform(estimator, outputs):
    check_agent(lambda x, y, name: SklearnAgent(estimator, x, y, name), X, X[:, :outputs] * 2)


@pytest.mark.parametrize("model", ["linear", "mlp", "logistic", "neighbours", "forest", "boosting"])
def test_built_in_models_conform(model):
    assert model in MODELS.names()
    task = TASKS.find("classification")
    check_agent(lambda x, y, name: build_agent(AgentSpec(name, model, x, y, CLASSES, task)), X, Y)


def test_a_wrapper_conforms():
    class Sure(Wrapper):
        def publish(self, shared):
            return np.eye(CLASSES)[self.agent.predict(shared).argmax(axis=1)]

    check_agent(lambda x, y, name: Sure(SklearnAgent(GaussianNB(), x, y, name)), X, Y)


@pytest.mark.parametrize("kind", [Nearest, HasWeights])
def test_an_agent_of_ones_own_conforms_in_double_precision_too(kind):
    check_agent(kind)


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_fault_is_named_in_a_sentence(kind):
    with pytest.raises(ConsilienceError, match=FAULTS[kind]):
        check_agent(kind)


def test_the_cause_of_a_failure_is_kept():
    with pytest.raises(ConsilienceError) as error:
        check_agent(Unfitted)
    assert isinstance(error.value.__cause__, AttributeError)


def test_a_network_left_in_training_mode_is_found():
    class Lazy(Wrapper):
        def predict(self, x):
            self.agent.model.train()
            with torch.no_grad():
                return self.agent.model(torch.from_numpy(x)).softmax(dim=1).numpy()

    with pytest.raises(ConsilienceError, match=r"depends on the other samples"):
        check_agent(lambda x, y, name: Lazy(TorchAgent(network(nn.BatchNorm1d(8)), x, y, name)), X, Y)


def test_agents_that_have_their_model_in_common_are_found():
    model = network()
    with pytest.raises(ConsilienceError, match=r"predict differently.*is a model made outside make_agent\?"):
        check_agent(lambda x, y, name: TorchAgent(model, x, y, name), X, Y)


def test_the_check_itself_leaves_the_global_generators_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    check_agent(lambda x, y, name: SklearnAgent(GaussianNB(), x, y, name))
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002
    assert before[2] == random.getstate()
