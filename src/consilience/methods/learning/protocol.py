"""The interface of learning, and what several ways of learning share."""

from dataclasses import dataclass
from typing import Protocol, cast

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, Losses, TrainsOnShared, implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options
from consilience.base.rows import Rows, count
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


@dataclass(frozen=True)
class OneAfterAnother(LearningSteps):
    """Base of ways of learning in which agents train one after another, each by `teach`."""

    soft = False

    def learn(
        self, agents: LocalAgents, shared: Rows, psi: dict[str, Array], lam: float, private: dict[str, Losses]
    ) -> dict[str, Losses]:
        """`teach` for agents with pseudo-labels; the others train on private data, unless they already have."""

        def train(agent: Agent) -> Losses:
            before, labels = private.get(agent.name), psi.get(agent.name)
            if labels is None:
                return before if before is not None else agent.train(shared, None, 0.0)
            return combine_losses(before, self.teach(agent, shared, labels))

        return agents.each(train)

    def teach(self, agent: Agent, shared: Rows, psi: Array) -> Losses:
        """Training of one agent on its pseudo-labels."""
        raise NotImplementedError


def trains_on_shared(agent: Agent) -> TrainsOnShared | None:
    """The agent, or None if it cannot train on the shared data alone."""
    return cast(TrainsOnShared, agent) if implements(agent, TrainsOnShared) else None


def train_as_one_set(agent: Agent, shared: Rows, psi: Array, weight: float = 1.0) -> Losses:
    """The agent trains on private samples and labelled shared samples as one set.

    1/n sum_i L_i + lam 1/n* sum_s L*_s with lam = weight n*/n: a shared sample counts as much as `weight` private ones.
    """
    return agent.train(shared, psi, weight * count(shared) / agent.samples)


def combine_losses(private: Losses | None, shared: Losses) -> Losses:
    """The losses of a round in which private training, if any, and training on shared data were separate."""
    if private is None:
        return shared
    return Losses(
        private.local, shared.disagreement, private.trained + shared.trained, private.forward + shared.forward
    )


def check_shared_labels(labels: int, samples: int, warmup: int) -> None:
    """Raises an error if the number of true labels is not that of the shared samples."""
    if labels and (labels != samples or not warmup):
        raise ConsilienceError(
            f"shared_labels has {labels} labels for {samples} shared samples, and the warm-up {warmup} rounds. "
            "Give one label for each sample, and at least one round of warm-up."
        )
