"""Agents whose models are averaged: small networks, and linear regressions that a plain loop can follow."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

from consilience import SklearnAgent, TorchAgent
from consilience.agents.local_agents import LocalAgents
from consilience.extend import InMemory, Round, Start
from consilience.methods.protocol import Method
from tests.conftest import CLASSES, FEATURES, blobs
from tests.torch_options import torch_options

SIZES = {"a": 20, "b": 40, "c": 70}


def network(seed: int, width: int = 8, norm: bool = True) -> nn.Module:
    torch.manual_seed(seed)
    middle: list[nn.Module] = [nn.BatchNorm1d(width)] if norm else []
    return nn.Sequential(nn.Linear(FEATURES, width), *middle, nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, CLASSES))


def plain_network(seed: int) -> nn.Module:
    """One that trains together with others of its kind, as one computation."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def classifier(name: str, **options: Any) -> TorchAgent:
    number = list(SIZES).index(name)
    x, y = blobs(SIZES[name], seed=number)
    return TorchAgent(network(number), x, y, name, **torch_options(epochs=2, batch=16, **options))


def classifiers(**options: Any) -> list[TorchAgent]:
    """Networks with batch norm and dropout; agents have 20, 40 and 70 samples."""
    return [classifier(name, **options) for name in SIZES]


# Linear regressions of different curvature, optimum and size: loss (1/n) |X w - y|^2, full-batch SGD.

RATE, DIMENSIONS = 0.2, 3
QUADRATICS = {"a": (40, (1.0, 0.5, 0.3), 5), "b": (20, (0.3, 1.0, 0.5), 10), "c": (60, (0.5, 0.3, 1.0), 15)}
Quadratics = dict[str, tuple[np.ndarray, np.ndarray, int]]
"""Samples, values and local steps of each agent."""


def quadratic_data(iid: bool = False) -> Quadratics:
    data = {}
    for number, (name, (samples, scale, epochs)) in enumerate(QUADRATICS.items()):
        draw = np.random.default_rng(0 if iid else number)
        x = draw.normal(size=(30 if iid else samples, DIMENSIONS)) * (1.0 if iid else np.array(scale))
        y = x @ draw.normal(0, 2, size=DIMENSIONS) + 0.1 * draw.normal(size=len(x))
        data[name] = x.astype(np.float32), y.astype(np.float32), epochs
    return data


def quadratics(data: Quadratics) -> list[TorchAgent]:
    agents = []
    for number, (name, (x, y, epochs)) in enumerate(data.items()):
        torch.manual_seed(number)
        model = nn.Linear(DIMENSIONS, 1, bias=False)
        options: dict[str, Any] = {"epochs": epochs, "batch": 1000}
        options["optimizer"] = lambda p: torch.optim.SGD(p, lr=RATE)
        agents.append(TorchAgent(model, x, y, name, task="regression", **torch_options(**options)))
    return agents


def shares_of(data: Quadratics) -> dict[str, float]:
    """n_i / n, which is 1/N in the papers."""
    total = sum(len(x) for x, _, _ in data.values())
    return {name: len(x) / total for name, (x, _, _) in data.items()}


def gradient_of(data: Quadratics, name: str, w: np.ndarray) -> np.ndarray:
    """Of agent `name`'s loss at `w`, sample by sample."""
    x, y, _ = data[name]
    return sum(2 * (x[s] @ w - y[s]) * x[s].astype(float) for s in range(len(x))) / len(x)


def pooled_optimum(data: Quadratics) -> np.ndarray:
    """The least-squares solution of all samples together."""
    x, y = np.vstack([x for x, _, _ in data.values()]), np.hstack([y for _, y, _ in data.values()])
    return np.linalg.lstsq(x.astype(float), y.astype(float), rcond=None)[0]


def weight_of(agent: Any) -> np.ndarray:
    """The weights of a linear regression."""
    return agent.weights()["weight"][0]


def after(method: Method, rounds: int, data: Quadratics) -> list[TorchAgent]:
    """Linear regressions after so many rounds."""
    agents = quadratics(data)
    rounds_of(method, rounds, agents, data["a"][0])
    return agents


def rounds_of(
    method: Method, rounds: int, agents: Sequence[Any], shared: np.ndarray, start: Start | None = None
) -> list[Round]:
    """All rounds of a method among these agents."""
    exchange = InMemory(tuple(agent.name for agent in agents), method.wire)
    return list(method.rounds(LocalAgents(agents, exchange.roster), shared, exchange, start or Start(rounds)))


def assert_same_weights(one: dict[str, np.ndarray], two: dict[str, np.ndarray], **tolerance: float) -> None:
    assert one.keys() == two.keys()
    for key in one:
        np.testing.assert_allclose(one[key], two[key], **({"rtol": 0, "atol": 0} | tolerance), err_msg=key)


def assert_same_losses(one: Round, two: Round) -> None:
    assert one.record.losses.keys() == two.record.losses.keys()
    for name, losses in one.record.losses.items():
        other = two.record.losses[name]
        np.testing.assert_array_equal([losses.local, losses.disagreement], [other.local, other.disagreement])


def agents_for(task: str) -> list[SklearnAgent]:
    """Two agents that predict values, or several labels."""
    agents = []
    for seed in range(2):
        x, y = blobs(20, seed)
        if task == "regression":
            agents.append(SklearnAgent(LinearRegression(), x, x[:, :2]))
        else:
            agents.append(SklearnAgent(LogisticRegression(), x, np.stack([y == 0, x[:, 0] > 0], axis=1)))
    return agents
