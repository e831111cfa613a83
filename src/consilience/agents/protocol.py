"""What methods need of an agent, whatever its model. Ask for a capability, never for a class."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast, final

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
    """`losses` with the cost of predicting `samples` rows for peers."""
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
        """Everything that `restore` needs to continue with the same numbers."""

    def restore(self, state: dict[str, Array], shared: Rows) -> None:
        """Restores a saved `state`. Model, data and seed are those the agent was made with."""


class Publishes(Protocol):
    """An agent that publishes something other than its predictions, such as a private agent or an attacker."""

    def publish(self, shared: Rows) -> Array:
        """What the agent publishes for the shared data, in the form of `predict`."""


class AcceptsMoreClasses(Protocol):
    """An agent that can predict classes which its own data do not show."""

    def accept_classes(self, outputs: int) -> None:
        """Sets the number of outputs."""


class NamesClasses(Protocol):
    """An agent that knows what its classes are called, from labels that are words."""

    class_names: tuple[str, ...]
    """In the order of the outputs; empty where labels are numbers."""

    def rename(self, class_names: tuple[str, ...]) -> None:
        """Sets the names and the order of all classes, its own among them."""


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
        """Sets what `weights` returned of an agent with the same architecture."""

    def reset_optimizer(self) -> None:
        """Resets the state of the optimizer."""

    def train_alone(self, correct: Correction | None = None) -> Losses:
        """One round on the private data alone, with every gradient changed by `correct` before it is used."""


class TrainsOnShared(Protocol):
    """An agent that can train on the shared data alone.

    An agent that is refitted in every round cannot: it would forget its private data.
    """

    def train_on_shared(self, shared: Rows, labels: Array, passes: int) -> Losses:
        """Trains for `passes` passes over the shared data with `labels`; no private row is used."""


class HasTrainingSettings(Protocol):
    """An agent that describes how it trains, so that a run resumes only with agents that train in the same way."""

    def training_settings(self) -> dict[str, str]:
        """What decides its training besides data and task, by name, as text that is the same in every process."""


class OwnRows(Protocol):
    """An agent whose private data a method may use in the agent's own process."""

    rows: Rows
    """As they were given."""
    labels: Array
    """As the task has them."""


class HoldsOut(Protocol):
    """An agent that knows what models which never saw them predict for some of its private rows."""

    def held_out(self, refit: bool = True) -> tuple[Array, Array]:
        """Predictions (rows, outputs) for rows kept back, or for every row by models that are refitted without it, and
        their labels; no rows if there are none.

        Refitting on the last pseudo-labels is wrong (`refit` False) with dual variables, which remember the private
        rows.
        """


def with_prefix(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose names begin with `prefix`, without it."""
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def missing(thing: object, capability: type) -> list[str]:
    """Names that the protocol `capability` requires and `thing` lacks. A wrapper has what it passes on."""
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
    """One line for `__repr__`: the class, name, model, samples and outputs of an agent."""
    task = agent.task
    return (
        f"<{type(agent).__name__} {agent.name!r}: {agent.kind}, {agent.samples} samples, "
        f"{agent.outputs} {task.outputs_are}>"
    )


def published(agent: Agent, shared: Rows) -> Array:
    """What an agent publishes for the shared data: by default its predictions."""
    return cast(Publishes, agent).publish(shared) if implements(agent, Publishes) else agent.predict(shared)


@final
@dataclass
class GradientCorrection:
    """g <- rule(g, y, x, common, own) before every optimizer step; a `Correction` of one agent in one round.

    Args:
        rule: The gradient to use, given the gradient g, its tensor y, and the three tensors of the same name below.
        x: The server's model.
        common: State of the server.
        own: State of the agent.
        elementwise: Whether `rule` treats every number by itself, so that one call can serve many stacked models.
        keeps_sums: Whether the gradients are added up in `sums`.
    """

    rule: Callable[[Any, Any, Any, Any, Any], Any]
    x: Weights
    common: Weights = field(default_factory=dict)
    own: Weights = field(default_factory=dict)
    elementwise: bool = False
    keeps_sums: bool = False
    sums: dict[str, Any] = field(default_factory=dict)
    """Sum of the agent's gradients before they are changed, by parameter."""

    def __post_init__(self) -> None:
        self._tensors: dict[str, tuple[Any, ...]] = {}

    def __call__(self, name: str, g: Any, y: Any) -> Any:
        """The gradient to use for the named tensor."""
        if name not in self._tensors:
            parts = (self.x, self.common, self.own)
            self._tensors[name] = tuple(_like(y, weights[name]) if name in weights else None for weights in parts)
        if self.keeps_sums:
            self.sums[name] = self.sums[name] + g if name in self.sums else g
        return self.rule(g, y, *self._tensors[name])


def _like(tensor: Any, array: Array) -> Any:
    """`array` as a tensor of the type and on the device of `tensor`, which may be an array as well."""
    if not hasattr(tensor, "detach"):
        return array
    import torch

    return torch.from_numpy(array).to(tensor)


def copied(agent: Agent) -> Agent:
    """A copy with a model of its own, which shares the attributes listed in `untouched`, such as the data."""
    names = getattr(agent, "untouched", ())
    memo = {id(value): value for value in (getattr(agent, name, None) for name in names) if value is not None}
    try:
        return deepcopy(agent, memo)
    except Exception as error:
        raise ConsilienceError(
            f"agent {agent.name!r} cannot be copied, so that no copy can train alone beside it ({error}). "
            "Give it a method __deepcopy__, or go without gains: baseline=False."
        ) from error
