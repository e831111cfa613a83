"""What every script is given, what it prints, and the local training of those that leave it to their user."""

import json
import os
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Task:
    """FedAvg of networks with one hidden layer: every agent has as many samples."""

    x: Tensor
    """(agents, samples, features)."""
    y: Tensor
    weights: list[Tensor]
    """Of the first model, in the order of its parameters."""
    rounds: int
    epochs: int
    batch: int
    lr: float

    def model(self) -> nn.Module:
        """A new model with the first weights."""
        hidden, features = self.weights[0].shape
        model = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, len(self.weights[3])))
        set_weights(model, self.weights)
        return model

    def batches(self) -> list[Tensor]:
        """The samples of each step of an epoch."""
        return list(torch.randperm(self.x.shape[1]).split(self.batch))

    def train(self, model: nn.Module, agent: int) -> None:
        """A round of local training as it is usually written."""
        x, y = self.x[agent], self.y[agent]
        optimizer = torch.optim.Adam(model.parameters(), lr=self.lr)
        for _ in range(self.epochs):
            for rows in self.batches():
                optimizer.zero_grad()
                functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()

    def tell(self, ends: list[float], weights: list[Tensor]) -> None:
        """Prints the result: `ends` are CPU times when the first round began and when every round ended."""
        model = self.model()
        set_weights(model, weights)
        with torch.no_grad():
            right = (model(self.x).argmax(dim=2) == self.y).float().mean().item()
        print(json.dumps({"rounds": [end - begin for begin, end in pairwise(ends)], "accuracy": right}), flush=True)


def cpu_of_all() -> float:
    """Seconds of CPU time of this process and of all processes below it."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(path.parent.name)
        parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks[number] for number in below) / os.sysconf("SC_CLK_TCK")


def set_weights(model: nn.Module, weights: list[Tensor]) -> None:
    """Copies weights into a model."""
    with torch.no_grad():
        for parameter, weight in zip(model.parameters(), weights, strict=True):
            parameter.copy_(weight)


def mean_of(models: list[nn.Module]) -> list[Tensor]:
    """The mean of their weights: all have as many samples."""
    return [torch.stack([*same]).mean(dim=0).detach() for same in zip(*(m.parameters() for m in models), strict=True)]


def write(path: Path, agents: int, rounds: int, samples: int = 80, hidden: int = 64, lr: float = 0.005) -> None:
    """Digits like those of scikit-learn: ten classes of 64 numbers, noise around a mean."""
    draw = np.random.default_rng(0)
    means = draw.normal(size=(10, 64))
    y = draw.integers(0, 10, (agents, samples))
    x = (means[y] + 3 * draw.normal(size=(agents, samples, 64))).astype(np.float32)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    weights = {f"weight{number}": weight.detach().numpy() for number, weight in enumerate(model.parameters())}
    np.savez(path, x=x, y=y, rounds=rounds, epochs=5, batch=64, lr=lr, **weights)


def read(path: str = "") -> Task:
    """The task in the file that the command line names."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    with np.load(path or sys.argv[1]) as saved:
        weights = [torch.from_numpy(saved[f"weight{number}"]) for number in range(4)]
        x, y = torch.from_numpy(saved["x"]), torch.from_numpy(saved["y"])
        return Task(x, y, weights, *(saved[name].item() for name in ("rounds", "epochs", "batch", "lr")))
