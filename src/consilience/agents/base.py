"""A start for agents of a new kind, and for agents around another one."""

from typing import Any

import numpy as np

from consilience.agents.protocol import Agent, Losses, agent_repr
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Task, labelled


class BaseAgent:
    """Checked private data and the attributes of an agent that follow from them. Optional: any `Agent` will do.

    A subclass defines `predict` and `train`, sets in `begin` what it needs before the first round, and lists in `keeps`
    the attributes, arrays or numbers, that a checkpoint holds.

    Args:
        x: The private rows.
        y: Their labels.
        name: Unique among the agents.
        task: What is learned: classification, regression, multilabel, or a task of your own.
        outputs: The number of classes, where the labels show fewer.

    >>> class Counts(BaseAgent):
    ...     def predict(self, x):
    ...         return np.tile(self.targets.mean(axis=0), (len(x), 1))
    >>> Counts(np.zeros((4, 2)), np.array([0, 0, 0, 1]), "a").predict(np.zeros((1, 2))).tolist()
    [[0.75, 0.25]]
    """

    keeps: tuple[str, ...] = ()
    parameters: int | None = None
    noise: float = 1.0

    def __init__(
        self, x: Array, y: Array, name: str = "", *, task: str | Task = "classification", outputs: int = 0
    ) -> None:
        self.name, self.task = name, task_named(task)
        data = labelled(name, self.task, x, y)
        self.x, self.y = self.rows, self.labels = data.x, data.y
        self.kind = type(self).__name__.lower()
        self.samples, self.class_counts = len(data.y), data.counts
        self.outputs = max(data.outputs, outputs)
        self.targets = self.task.targets(self.y, self.outputs)
        """The private labels as predictions that are certain (samples, outputs)."""
        self.begin()

    def __repr__(self) -> str:
        return agent_repr(self)

    def begin(self) -> None:
        """Called once, after the data have been checked."""

    def predict(self, x: Array) -> Array:
        """Predictions (samples, outputs)."""
        raise NotImplementedError

    def train(self, shared: Array, labels: Array | None, lam: float) -> Losses:
        """One round of local training."""
        raise NotImplementedError

    def state(self) -> dict[str, Array]:
        """Copies of what `keeps` names, and the number of samples: a state is never empty."""
        return {"samples": np.array(self.samples)} | {name: np.array(getattr(self, name)) for name in self.keeps}

    def restore(self, state: dict[str, Array], shared: Array) -> None:
        """Restores what `state` returned."""
        for name in self.keeps:
            setattr(self, name, state[name])


class Wrapper:
    """Passes everything on to `agent`. A subclass changes what it defines, such as `publish`.

    Args:
        agent: The agent inside.

    >>> class Sure(Wrapper):
    ...     def publish(self, shared):
    ...         return self.agent.predict(shared).round()
    """

    def __init__(self, agent: Agent) -> None:
        object.__setattr__(self, "agent", agent)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.agent!r})"

    def __getattr__(self, name: str) -> Any:
        if name == "agent":
            raise AttributeError(name)  # a copy that is not filled yet
        return getattr(self.agent, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) or hasattr(type(self), name) or not hasattr(self.agent, name):
            object.__setattr__(self, name, value)
        else:
            setattr(self.agent, name, value)
