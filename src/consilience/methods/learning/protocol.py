"""The interface of learning, and what several ways of learning share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses, TrainsOnShared, implements
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
    """Base of ways of learning in which agents learn private labels and pseudo-labels one after the other."""

    soft = False

    def learn(
        self, agents: LocalAgents, shared: Rows, psi: dict[str, Array], lam: float, private: dict[str, Losses]
    ) -> dict[str, Losses]:
        """`teach` for agents with pseudo-labels; the others train on private data, unless they already have."""
        others = agents.subset([name for name in agents.names if name not in psi and name not in private])
        losses = private | others.train(shared, {}, 0.0)
        taught = self.teach(agents.subset(psi), shared, psi)
        losses |= {name: combine_losses(private.get(name), own) for name, own in taught.items()}
        return {name: losses[name] for name in agents.names}

    def teach(self, agents: LocalAgents, shared: Rows, psi: dict[str, Array]) -> dict[str, Losses]:
        """Training of agents on their pseudo-labels; their losses by name."""
        raise NotImplementedError


def by_ability(agents: LocalAgents) -> tuple[LocalAgents, LocalAgents]:
    """Agents that can train on the shared data alone, and those that cannot: they are refitted in every round."""
    able = {agent.name for agent in agents if implements(agent, TrainsOnShared)}
    return agents.subset(able), agents.subset(set(agents.names) - able)


def train_as_one_set(
    agents: LocalAgents, shared: Rows, psi: Mapping[str, Array], weight: float = 1.0
) -> dict[str, Losses]:
    """Agents train on private samples and labelled shared samples as one set.

    1/n sum_i L_i + lam 1/n* sum_s L*_s with lam = weight n*/n: a shared sample counts as much as `weight` private ones.
    """
    lam = {agent.name: weight * count(shared) / agent.samples for agent in agents}
    return agents.train(shared, {name: psi[name] for name in agents.names}, lam)


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
