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

from consilience import TASKS, ConsilienceError, Losses, SklearnAgent, TorchAgent, Wrapper, check_agent
from consilience.agents.models import MODELS, Order, build_agent
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
    check_agent(lambda x, y, name: TorchAgent(network(*middle, outputs=outputs), x, y, name, task=task, epochs=2), X, y)


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
    check_agent(lambda x, y, name: build_agent(Order(name, model, x, y, CLASSES, task)), X, Y)


def test_a_wrapper_conforms():
    class Sure(Wrapper):
        def publish(self, shared):
            return np.eye(CLASSES)[self.agent.predict(shared).argmax(axis=1)]

    check_agent(lambda x, y, name: Sure(SklearnAgent(GaussianNB(), x, y, name)), X, Y)


class Nearest:
    """A small agent of its own: the nearest class mean, moved a little towards the pseudo-labels in every round."""

    kind, parameters, noise = "means", None, 1.0

    def __init__(self, x, y, name):
        self.name, self.task, self.outputs, self.samples = name, TASKS.find("classification"), 3, len(y)
        self.class_counts = np.bincount(y, minlength=3).tolist()
        self.means = np.stack([x[y == c].mean(axis=0) for c in range(3)]).astype(np.float64)
        self.rounds = np.array(0)

    def predict(self, x):
        closeness = np.exp(-np.linalg.norm(x[:, None] - self.means, axis=2))
        return closeness / closeness.sum(axis=1, keepdims=True)

    def train(self, shared, labels, lam):
        self.rounds += 1
        if labels is not None and lam > 0:
            target = labels.T @ shared / labels.sum(axis=0)[:, None]
            self.means += lam / (1 + self.rounds) * (target - self.means)
        return Losses(0.5)

    def state(self):
        return {"means": self.means.copy(), "rounds": self.rounds.copy()}

    def restore(self, state, shared):
        self.means, self.rounds = state["means"].copy(), state["rounds"].copy()


class HasWeights(Nearest):
    """The same with weights that can be averaged."""

    steps, lr, trained_names = 1, 0.1, ("means",)

    def weights(self):
        return {"means": self.means.copy()}

    def set_weights(self, weights):
        self.means = weights["means"].copy()

    def reset_optimizer(self):
        pass

    def train_alone(self, correct=None):
        self.means += 0.1
        return Losses(0.5)


@pytest.mark.parametrize("kind", [Nearest, HasWeights])
def test_an_agent_of_ones_own_conforms_in_double_precision_too(kind):
    check_agent(kind)


class Nameless(Nearest):
    def __init__(self, x, y, name):
        super().__init__(x, y, "me")


class MiscountedSamples(Nearest):
    def __init__(self, x, y, name):
        super().__init__(x, y, name)
        self.samples += 1


class TaskIsAWord(Nearest):
    def __init__(self, x, y, name):
        super().__init__(x, y, name)
        self.task = "classification"


class Lacking(Nearest):
    restore = property()


class Unfitted(Nearest):
    def predict(self, x):
        if not self.rounds:
            raise AttributeError("call fit first")
        return super().predict(x)


class Logits(Nearest):
    def predict(self, x):
        return np.log(super().predict(x))


class LosesSamples(Nearest):
    def predict(self, x):
        return super().predict(x)[:-1]


class OtherClasses(Nearest):
    def predict(self, x):
        return np.pad(super().predict(x), ((0, 0), (0, 1)))


class NotFinite(Nearest):
    def predict(self, x):
        return super().predict(x) * np.nan


class Fickle(Nearest):
    calls = 0

    def predict(self, x):
        self.calls += 1
        f = super().predict(x) + self.calls * 1e-3
        return f / f.sum(axis=1, keepdims=True)


class Gregarious(Nearest):
    """As batch norm does in training mode."""

    def predict(self, x):
        return super().predict(x - x.mean(axis=0))


class Scribbler(Nearest):
    def predict(self, x):
        x[:] = x.round(2)
        return super().predict(x)


class SaysTooLittle(Nearest):
    def publish(self, shared):
        return self.predict(shared)[:2]


class Silent(Nearest):
    def train(self, shared, labels, lam):
        super().train(shared, labels, lam)


class Diverging(Nearest):
    def train(self, shared, labels, lam):
        super().train(shared, labels, lam)
        return Losses(float("nan"))


class Failing(Nearest):
    def train(self, shared, labels, lam):
        return Losses(0.5) if labels is None else Losses(labels["a"])


class ChangesLabels(Nearest):
    def train(self, shared, labels, lam):
        if labels is not None:
            labels[:] = 1 / 3
        return Losses(0.5)


class ChangesShared(Nearest):
    def train(self, shared, labels, lam):
        shared -= shared.mean(axis=0)
        return Losses(0.5)


class Noiseless(Nearest):
    def train(self, shared, labels, lam):
        self.noise = 0.0
        return Losses(0.5)


class Unseeded(Nearest):
    def train(self, shared, labels, lam):
        self.means = self.means + np.random.default_rng().normal(0, 0.1, self.means.shape)
        return Losses(0.5)


class SavesAList(Nearest):
    def state(self):
        return {"means": self.means.tolist()}


class SavesObjects(Nearest):
    def state(self):
        return {"model": np.array([self.means], dtype=object), "me": np.array({"a": 1})}


class SavesNothing(Nearest):
    def state(self):
        return {}


class SavesItself(Nearest):
    def state(self):
        return {"means": self.means, "rounds": self.rounds}


class Forgetful(Nearest):
    def restore(self, state, shared):
        self.means = state["means"].copy()


class DrawsFromNumpy(Nearest):
    def __init__(self, x, y, name):
        np.random.seed(0)  # noqa: NPY002
        super().__init__(x, y, name)


class DrawsFromTorch(Nearest):
    def predict(self, x):
        torch.rand(1)
        return super().predict(x)


class DrawsFromPython(Nearest):
    def train(self, shared, labels, lam):
        random.random()
        return super().train(shared, labels, lam)


class WidensByWord(Nearest):
    def widen(self, outputs):
        self.outputs = outputs


class LendsWeights(HasWeights):
    def weights(self):
        return {"means": self.means}


class KeepsWeights(HasWeights):
    def set_weights(self, weights):
        pass


class TrainsUnknown(HasWeights):
    trained_names = ("means", "bias")


class SilentAlone(HasWeights):
    def train_alone(self, correct=None):
        return 0.5


class Tampered(Nearest):
    """Knows by whom it is asked."""

    def __getattribute__(self, name):
        import sys

        if name == "predict" and sys._getframe(1).f_code.co_name == "__getattr__":
            return lambda x: np.full((len(x), 3), 1 / 3)
        return super().__getattribute__(name)


FAULTS = {
    Lacking: r"^Lacking lacks restore of an agent\.$",
    Nameless: r"its name is 'me', but make_agent was given 'checked'",
    MiscountedSamples: r"samples is 61, but it was given 60",
    TaskIsAWord: r"task is 'classification'; use consilience\.TASKS\.find",
    Unfitted: r"predicting before any training raised AttributeError: call fit first\.",
    Logits: r"30 of 30 rows are not probabilities .*Did it send logits\? Apply softmax",
    LosesSamples: r"predictions have shape \(29, 3\), but there are 30 samples",
    OtherClasses: r"predictions have 4 columns, the others have 3 classes",
    NotFinite: r"30 of 30 rows are not finite",
    Fickle: r"predicting twice gives different numbers",
    Gregarious: r"depends on the other samples \(is a network in training mode\?\)",
    Scribbler: r"predict changed the samples that it was given",
    SaysTooLittle: r"predictions have shape \(2, 3\), but there are 30 samples",
    Silent: r"train returned NoneType, not consilience\.Losses",
    Diverging: r"the local loss after training is nan",
    Failing: r"training raised IndexError: ",
    ChangesLabels: r"train changed the pseudo-labels that it was given",
    ChangesShared: r"train changed the shared data that it was given",
    Noiseless: r"noise is 0\.0; it must be a number above 0",
    Unseeded: r"two agents made and trained in the same way predict differently",
    SavesAList: r"state\(\) must be a dict of NumPy arrays of numbers",
    SavesObjects: r"state\(\) must be a dict of NumPy arrays of numbers",
    SavesNothing: r"state\(\) is empty",
    SavesItself: r"what state\(\) returned changed when the agent trained on\. Return copies",
    Forgetful: r"after restore\(state\(\)\) and one more round it predicts otherwise",
    DrawsFromNumpy: r"making it changed the state of a global random generator",
    DrawsFromTorch: r"predicting before any training changed the state of a global random generator",
    DrawsFromPython: r"training changed the state of a global random generator",
    WidensByWord: r"predictions have 3 columns, the others have 4 classes",
    LendsWeights: r"what weights\(\) returned changed when the agent trained on",
    KeepsWeights: r"an agent that took over the weights of another predicts otherwise",
    TrainsUnknown: r"trained_names has bias, which weights\(\) does not",
    SilentAlone: r"train_alone returned float, not consilience\.Losses",
    Tampered: r"in a wrapper that passes everything on it behaves otherwise",
}


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
