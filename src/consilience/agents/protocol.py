"""What the consensus loop needs of an agent, whatever its model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from consilience.errors import ConsilienceError

Array = NDArray[Any]
Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Losses:
    """The two terms of the local objective (label `step-local-update`) after a round of training."""

    local: float
    disagreement: float = float("nan")


@runtime_checkable
class Agent(Protocol):
    """Private labelled data and a model that learns from them and from pseudo-labels."""

    name: str
    task: Task
    outputs: int
    """Classes, or for regression the number of values predicted."""
    samples: int
    """Size of the private training data."""
    class_counts: list[int]
    """Private training samples of each class, for reports; empty for regression."""
    kind: str
    """The model family, for tables."""
    parameters: int | None
    """Numbers that sharing the weights would send, or None where weights cannot be averaged."""
    noise: float
    """Scale of the noise in the agent's own labels (regression: root mean squared residual)."""

    def predict(self, x: Array) -> Array:
        """Class probabilities (samples, classes), or for regression values (samples, outputs)."""

    def train(self, shared: Array, labels: Array | None, lam: float) -> Losses:
        """One round of local training: local loss + lam x disagreement with `labels` on `shared`."""

    def state(self) -> dict[str, Array]:
        """Everything that a later `restore` needs to go on as if nothing had happened."""

    def restore(self, state: dict[str, Array], shared: Array) -> None:
        """Takes up a saved `state`. Model, data and seed are those the agent was made with."""


def describe(agents: Sequence[Agent], low_quality: Sequence[str] = ()) -> list[dict[str, Any]]:
    """What a summary says of each agent."""
    return [
        {
            "name": agent.name,
            "model": agent.kind,
            "samples": agent.samples,
            "low_quality": agent.name in low_quality,
            "parameters": agent.parameters,
            "class_counts": _padded(agent),
        }
        for agent in agents
    ]


def _padded(agent: Agent) -> list[int]:
    missing = agent.outputs - len(agent.class_counts)
    return agent.class_counts + [0] * missing if agent.class_counts else []


def checked_data(name: str, task: Task, x: Array, y: Array) -> tuple[Array, Array]:
    """Private data as arrays of the right form: labels 0..C-1 (samples,), or values (samples, outputs)."""
    x, y = np.asarray(x), np.asarray(y)
    who = f"agent {name!r}" if name else "an agent"
    if len(x) == 0:
        raise ConsilienceError(f"{who} has no training data. Leave it out, or give it samples.")
    if len(x) != len(y):
        raise ConsilienceError(f"{who}: {len(x)} samples but {len(y)} labels. Give one label per sample.")
    if task == "regression":
        values = y.astype(np.float32).reshape(len(y), -1)
        if not np.isfinite(values).all():
            raise ConsilienceError(f"{who}: some training values are not finite. Remove those samples.")
        return x, values
    whole = np.issubdtype(y.dtype, np.number) and y.ndim == 1 and np.array_equal(y, np.floor(y)) and y.min() >= 0
    if not whole:
        raise ConsilienceError(
            f"{who}: labels must be class numbers 0, 1, 2, ... in one dimension (got {y.dtype}, shape {y.shape}). "
            "Encode names with sklearn.preprocessing.LabelEncoder, with the same classes for all agents."
        )
    return x, y.astype(np.int64)
