"""What a way of learning is, and what they have in common."""

from dataclasses import dataclass
from typing import Protocol, cast

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, Losses, TrainsOnShared, implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options
from consilience.base.rows import Rows, count
from consilience.tasks.protocol import Array, Task


class Learning(Protocol):
    """How agents learn. Its fields are its options."""

    trains_first: bool
    """Whether agents train on private data before they speak. Processes must not differ in it."""
    soft: bool
    """Whether soft pseudo-labels and private labels are learned together, so that dual variables make sense."""

    def check(self, task: Task, samples: int, warmup: int) -> None:
        """Refuses what makes no sense for a task and a number of shared samples."""

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """Round t of the warm-up, in which everyone trains alone: L(f(X_i), y_i)."""

    def train_first(self, agents: LocalAgents, shared: Rows) -> dict[str, Losses]:
        """What agents learn before they speak; the losses of those who did."""

    def learn(
        self, agents: LocalAgents, shared: Rows, psi: dict[str, Array], lam: float, private: dict[str, Losses]
    ) -> dict[str, Losses]:
        """What agents learn from the pseudo-labels psi_i, after what they learned first."""


@dataclass(frozen=True)
class OneAfterAnother(Options):
    """What all ways have in common that teach agents one after another, each in `teach`."""

    trains_first = False
    soft = False

    def check(self, task: Task, samples: int, warmup: int) -> None:
        """Everything will do."""

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """Private data alone."""
        return agents.train(shared, {}, lam=0.0)

    def train_first(self, agents: LocalAgents, shared: Rows) -> dict[str, Losses]:
        """Nothing."""
        return {}

    def learn(
        self, agents: LocalAgents, shared: Rows, psi: dict[str, Array], lam: float, private: dict[str, Losses]
    ) -> dict[str, Losses]:
        """Everyone learns from its pseudo-labels; whoever has none from its private data, if it has not yet."""

        def taught(agent: Agent) -> Losses:
            first, labels = private.get(agent.name), psi.get(agent.name)
            if labels is None:
                return first if first is not None else agent.train(shared, None, 0.0)
            return combined(first, self.teach(agent, shared, labels))

        return agents.each(taught)

    def teach(self, agent: Agent, shared: Rows, psi: Array) -> Losses:
        """What one agent does with its pseudo-labels."""
        raise NotImplementedError


def pupil(agent: Agent) -> TrainsOnShared | None:
    """The agent, if it can learn from the shared data alone."""
    return cast(TrainsOnShared, agent) if implements(agent, TrainsOnShared) else None


def as_one_set(agent: Agent, shared: Rows, psi: Array, weight: float = 1.0) -> Losses:
    """The agent trains on its private samples and the labelled shared ones as one set.

    1/n sum_i L_i + lam 1/n* sum_s L*_s with lam = weight n*/n: every shared sample counts `weight` private ones.
    """
    return agent.train(shared, psi, weight * count(shared) / agent.samples)


def combined(private: Losses | None, shared: Losses) -> Losses:
    """The losses of a round with private training, if there was any, and learning from pseudo-labels apart."""
    if private is None:
        return shared
    return Losses(
        private.local, shared.disagreement, private.trained + shared.trained, private.forward + shared.forward
    )


def check_shared_labels(labels: int, samples: int, warmup: int) -> None:
    """Refuses true labels that are not those of the shared data."""
    if labels and (labels != samples or not warmup):
        raise ConsilienceError(
            f"shared_labels has {labels} labels for {samples} shared samples, and the warm-up {warmup} rounds. "
            "Give one label for each sample, and at least one round of warm-up."
        )
