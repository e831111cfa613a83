"""What methods need of an agent, whatever its model. Ask for a capability, never for a class."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows
from consilience.tasks.protocol import Array, Task

Weights = dict[str, Array]
"""Tensors by name."""
Correction = Callable[[str, Any, Any], Any]
"""The gradient to use for the named tensor, given its gradient and its present value."""


@dataclass(frozen=True)
class Losses:
    """The two terms of the local objective (label `step-local-update`) after a round of training, and what it cost."""

    local: float
    disagreement: float = float("nan")
    trained: int = 0
    """Samples that passed forward and back."""
    forward: int = 0
    """Samples that passed forward only."""


def add_forward_cost(losses: Losses, samples: int) -> Losses:
    """The same of an agent that predicted so many samples for its peers as well."""
    return replace(losses, forward=losses.forward + samples)


class Agent(Protocol):
    """Private labelled data and a model that learns from them and from pseudo-labels."""

    name: str
    task: Task
    outputs: int
    """Classes, labels, or for regression the number of values predicted."""
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

    def predict(self, x: Rows) -> Array:
        """Class probabilities (samples, classes), or for regression values (samples, outputs)."""

    def train(self, shared: Rows, labels: Array | None, lam: float) -> Losses:
        """One round of local training: local loss + lam x disagreement with `labels` on `shared`."""

    def state(self) -> dict[str, Array]:
        """Everything that a later `restore` needs to go on as if nothing had happened."""

    def restore(self, state: dict[str, Array], shared: Rows) -> None:
        """Takes up a saved `state`. Model, data and seed are those the agent was made with."""


class Publishes(Protocol):
    """An agent that says something else than it predicts, such as a private or a lying one."""

    def publish(self, shared: Rows) -> Array:
        """What the agent says of the shared data, in the form of `predict`."""


class AcceptsMoreClasses(Protocol):
    """An agent that can be told of classes which its own data do not show."""

    def accept_classes(self, outputs: int) -> None:
        """From now on predicts so many outputs."""


class NamesClasses(Protocol):
    """An agent that knows what its classes are called, from labels that are words."""

    class_names: tuple[str, ...]
    """In the order of the outputs; empty where labels are numbers."""

    def rename(self, class_names: tuple[str, ...]) -> None:
        """From now on predicts these classes in this order; those that it has are among them."""


class Averageable(Protocol):
    """An agent whose weights can be averaged with those of others of the same architecture."""

    name: str
    kind: str
    samples: int
    steps: int
    """Optimizer steps in a round."""
    lr: float
    """The learning rate of all parameters."""
    trained_names: list[str]
    """Names of the weights that have gradients."""

    def weights(self) -> Weights:
        """Copies of all parameters, and of the buffers that can be averaged."""

    def set_weights(self, weights: Weights) -> None:
        """Takes over what the `weights` of an agent with the same architecture gave."""

    def reset_optimizer(self) -> None:
        """Starts the optimizer afresh."""

    def train_alone(self, correct: Correction | None = None) -> Losses:
        """One round on the private data alone, with every gradient changed by `correct` before it is used."""


class TrainsOnShared(Protocol):
    """An agent that goes on learning from where it is, so that it can learn from the shared data alone for a while.

    One that is fitted anew every time would forget its private data, and learns from both at once instead.
    """

    def train_on_shared(self, shared: Rows, labels: Array, passes: int) -> Losses:
        """So many passes over the shared data with `labels`; no private row is used."""


class HasTrainingSettings(Protocol):
    """An agent that says how it trains, so that a run is resumed only with agents that train in the same way."""

    def training_settings(self) -> dict[str, str]:
        """What decides its training beside data and task, by name, as text that is the same in every process."""


class OwnRows(Protocol):
    """An agent that lets a method work with its private data in the agent's own process."""

    rows: Rows
    """As they were given."""
    labels: Array
    """As the task has them."""


def missing(thing: object, capability: type) -> list[str]:
    """What the protocol `capability` asks for and `thing` does not have. What a wrapper passes on, it has."""
    wanted = [*getattr(capability, "__annotations__", {}), *(n for n in vars(capability) if not n.startswith("_"))]
    return [name for name in wanted if not _has(thing, name)]


def _has(thing: object, name: str) -> bool:
    try:
        return hasattr(thing, name)
    except ConsilienceError:  # it is there, and says why it cannot be used
        return True


def implements(thing: object, capability: type) -> bool:
    """Whether `thing` has everything that the protocol `capability` asks for."""
    return not missing(thing, capability)


def agent_repr(agent: Agent) -> str:
    """An agent in a line, for `__repr__`: its kind, name, model, samples and outputs."""
    task = agent.task
    return (
        f"<{type(agent).__name__} {agent.name!r}: {agent.kind}, {agent.samples} samples, "
        f"{agent.outputs} {task.outputs_are}>"
    )


def published(agent: Agent, shared: Rows) -> Array:
    """What an agent says of the shared data: by default what it predicts."""
    return cast(Publishes, agent).publish(shared) if implements(agent, Publishes) else agent.predict(shared)
