"""The interface of learning, and its defaults."""

from dataclasses import dataclass
from typing import Protocol

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses
from consilience.base.options import Options
from consilience.base.rows import Rows
from consilience.tasks.protocol import Array, Task


class Learning(Protocol):
    """How agents learn in a round: a frozen dataclass whose fields are its options."""

    trains_first: bool
    """Whether agents train on private data before they publish; the same in all processes."""
    soft: bool
    """Whether private labels and soft pseudo-labels are learned together, which dual variables need."""

    def check(self, task: Task, samples: int, warmup: int) -> None:
        """Raises an error if an option does not fit the task, the number of shared samples or the warm-up."""

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """Round t of the warm-up, in which agents train alone: L(f(X_i), y_i)."""

    def train_first(self, agents: LocalAgents, shared: Rows) -> dict[str, Losses]:
        """Training before agents publish; losses of the agents that trained."""

    def learn(
        self, agents: LocalAgents, shared: Rows, psi: dict[str, Array], lam: float, private: dict[str, Losses]
    ) -> dict[str, Losses]:
        """Training on the pseudo-labels psi_i. `private` are the losses of `train_first`."""


@dataclass(frozen=True)
class LearningSteps(Options):
    """Defaults of a way of learning: no training before agents publish, and soft labels."""

    trains_first = False
    soft = True

    def check(self, task: Task, samples: int, warmup: int) -> None:
        """Accepts everything."""

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """Training on private data alone."""
        return agents.train(shared, {}, lam=0.0)

    def train_first(self, agents: LocalAgents, shared: Rows) -> dict[str, Losses]:
        """No training."""
        return {}
