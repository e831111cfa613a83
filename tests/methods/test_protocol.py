"""Averaging needs weights, not torch: an agent in NumPy alone works in every method."""

import numpy as np
import pytest
import torch

from consilience import FD, ConsilienceError, FedAvg, FedDF, FedDyn, FedProx, Scaffold
from consilience.extend import Losses
from consilience.methods import method_named
from consilience.methods.server import as_array, each
from consilience.tasks import task_named
from tests.conftest import CLASSES, blobs
from tests.methods.models import RATE, after, quadratic_data, quadratics, rounds_of, weight_of

pytestmark = pytest.mark.usefixtures("one_thread")


class Plain:
    """A linear regression by gradient descent, in double precision."""

    task, outputs, class_counts, kind, parameters = task_named("regression"), 1, (), "plain", 3
    noise, lr, trained_names = 1.0, RATE, ("weight",)

    def __init__(self, name, x, y, steps, start) -> None:
        self.name, self.x, self.y, self.steps, self.samples = name, x.astype(float), y.astype(float), steps, len(x)
        self.w = start.astype(float)

    def predict(self, x):
        return x @ self.w.T

    def train_alone(self, correct=None):
        for _ in range(self.steps):
            gradient = 2 * ((self.x @ self.w[0] - self.y) @ self.x / len(self.x))[None]
            self.w = self.w - RATE * (gradient if correct is None else correct("weight", gradient, self.w))
        return Losses(float(np.square(self.x @ self.w[0] - self.y).mean()))

    def weights(self):
        return {"weight": self.w.copy()}

    def set_weights(self, weights):
        self.w = weights["weight"].copy()

    def reset_optimizer(self):
        """There is nothing to forget."""


def plain(data):
    starts = [agent.weights()["weight"] for agent in quadratics(data)]
    return [Plain(name, *parts, start) for (name, parts), start in zip(data.items(), starts, strict=True)]


@pytest.mark.parametrize(
    "method", [FedAvg(), FedProx(mu=0.5), Scaffold(), Scaffold(variates="steps"), FedDyn(alpha=0.4)]
)
def test_numpy_and_torch_end_at_the_same_model(method):
    data = quadratic_data()
    agents = plain(data)
    rounds = rounds_of(method, 3, agents, data["a"][0])
    for agent, other in zip(agents, after(method, 3, data), strict=True):
        np.testing.assert_allclose(agent.w[0], weight_of(other), rtol=1e-4, atol=1e-5)
        assert agent.w.dtype == np.float64
    assert rounds[-1].record.sent["a"] == 2 * 8 * 3 * (2 if isinstance(method, Scaffold) else 1)
    if method == Scaffold():
        assert rounds[-1].memory.own["b"]["weight"].dtype == np.float32


@pytest.mark.parametrize("part", ["weights", "set_weights", "reset_optimizer", "train_alone", "lr", "trained_names"])
def test_an_agent_that_lacks_a_part_of_the_capability_is_refused(part):
    data = quadratic_data()
    lacking = type("Lacking", (), {name: thing for name, thing in vars(Plain).items() if name != part})
    agents = plain(data)
    agents[1] = lacking("b", *data["b"], agents[1].w)
    with pytest.raises(ConsilienceError, match=r"^agent 'b' \(plain\) has no weights that can be averaged"):
        rounds_of(FedAvg(), 1, agents, data["a"][0])


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
def test_tensors_of_any_kind_are_kept_in_single_precision(kind):
    found = as_array(torch.ones(2, 3, dtype=kind, requires_grad=True))
    np.testing.assert_array_equal(found, np.ones((2, 3)))
    assert found.dtype == as_array(np.ones(2)).dtype == np.float32


def test_rules_act_in_double_precision_and_round_to_that_of_the_first():
    big, small = {"w": np.array([1e8], np.float32)}, {"w": np.array([1.0], np.float32), "more": np.ones(1)}
    found = each(lambda a, b: (a + b) - a, big, small)
    assert found.keys() == {"w"}
    assert found["w"] == 1.0, "single precision would lose it"
    assert found["w"].dtype == np.float32


class Softmax:
    """A linear classifier by gradient descent in NumPy, which can digest, shows its rows and has weights."""

    task, outputs, class_counts, kind, parameters = task_named("classification"), CLASSES, (), "softmax", None
    noise, lr, trained_names, steps = 1.0, 0.5, ("weight",), 5

    def __init__(self, name, seed) -> None:
        self.rows, self.labels = blobs(30, seed)
        self.name, self.samples, self.digested = name, 30, 0
        self.w = np.zeros((self.rows.shape[1], CLASSES))

    def predict(self, x):
        e = np.exp(x @ self.w - (x @ self.w).max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def _descend(self, x, labels, weight, steps):
        for _ in range(steps):
            self.w = self.w - weight * self.lr * x.T @ (self.predict(x) - labels) / len(x)

    def train(self, shared, labels, lam):
        self.train_alone()
        if labels is not None:
            self._descend(shared, labels, lam, 1)
        return Losses(0.0)

    def train_alone(self, correct=None):
        self._descend(self.rows, np.eye(CLASSES)[self.labels], 1.0, self.steps)
        return Losses(0.0)

    def train_on_shared(self, shared, labels, passes):
        self.digested += passes
        self._descend(shared, labels, 1.0, passes)
        return Losses(float("nan"), 0.0)

    def weights(self):
        return {"weight": self.w.copy()}

    def set_weights(self, weights):
        self.w = weights["weight"].copy()

    def reset_optimizer(self):
        """There is nothing to forget."""


@pytest.mark.parametrize(
    ("method", "digested"),
    [
        (method_named("fedmd(warmup=1, passes=3)"), 6),
        (method_named("ds-fl(warmup=1, passes=2)"), 4),
        (method_named("fedct(warmup=1)"), 0),
        (method_named("cronus(warmup=1)"), 0),
        (FD(), 0),
        (FedDF(passes=4), 0),  # a copy of the first agent does, for the server
    ],
    ids=lambda given: getattr(given, "label", None),
)
def test_prediction_sharing_asks_for_capabilities_not_for_torch(method, digested, shared):
    agents = [Softmax(name, seed) for seed, name in enumerate("abc")]
    before = [agent.predict(shared) for agent in agents]
    rounds_of(method, 3, agents, shared)
    assert [agent.digested for agent in agents] == [digested] * 3
    for agent, first in zip(agents, before, strict=True):
        assert np.abs(agent.predict(shared) - first).max() > 0.1
    target, y = blobs(300, seed=2000)
    assert all((agent.predict(target).argmax(axis=1) == y).mean() > 0.9 for agent in agents)
