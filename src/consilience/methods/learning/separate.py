"""Private and shared samples one after the other, or the labelled shared samples among the private ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses, TrainsOnShared, implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import option
from consilience.base.rows import Rows, count
from consilience.methods.learning import LEARNING
from consilience.methods.learning.protocol import LearningSteps
from consilience.tasks.protocol import Array, Task


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


@LEARNING.add("sequential")
@final
@dataclass(frozen=True)
class Sequential(OneAfterAnother):
    """min L(f(X_i), y_i), publish f_i(X*), then min dist(f(X*), psi_i).

    An agent that is fitted from scratch every round would forget the private data, and learns both as one set.
    """

    passes: int = option(5, "over the shared data in a round", at_least=1)

    trains_first = True

    def train_first(self, agents: LocalAgents, shared: Rows) -> dict[str, Losses]:
        """Agents that can train on the shared data alone train on their private data."""
        able, _ = by_ability(agents)
        return able.subset(able.names, report=False).train(shared, {}, 0.0)

    def teach(self, agents: LocalAgents, shared: Rows, psi: dict[str, Array]) -> dict[str, Losses]:
        """The shared data alone, or both as one set."""
        able, others = by_ability(agents)
        return able.train_on_shared(shared, psi, self.passes) | train_as_one_set(others, shared, psi)


@LEARNING.add("revisit")
@final
@dataclass(frozen=True)
class Revisit(OneAfterAnother):
    """min dist(f(X*), psi_i), then min L(f(X_i), y_i): digest, then revisit.

    An agent that is fitted from scratch every round would forget the shared data, and learns both as one set.
    """

    passes: int = option(5, "over the shared data in a round", at_least=1)
    shared_labels: tuple[int, ...] = option((), "classes of the shared data, where they are known")
    pretraining: int = option(20, "passes over the shared data with these labels before the first round", at_least=1)

    def check(self, task: Task, samples: int, warmup: int) -> None:
        """Raises an error if the number of true labels is not that of the shared samples."""
        labels = len(self.shared_labels)
        if labels and (labels != samples or not warmup):
            raise ConsilienceError(
                f"shared_labels has {labels} labels for {samples} shared samples, and the warm-up {warmup} rounds. "
                "Give one label for each sample, and at least one round of warm-up."
            )

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """Training alone; in the first round after training on the true labels of the shared data, if there are any.

        An agent that is fitted from scratch uses these labels in every round of the warm-up.
        """
        if not self.shared_labels:
            return super().warm_up(agents, shared, t, own)
        true = agents.first.task.targets(np.array(self.shared_labels), agents.first.outputs)
        labels, (able, others) = dict.fromkeys(agents.names, true), by_ability(agents)
        if t > 1:
            losses = able.train(shared, {}, 0.0)
        else:
            losses = self._digest_and_revisit(able, shared, labels, self.pretraining)
        losses |= train_as_one_set(others, shared, labels)
        return {name: losses[name] for name in agents.names}

    def teach(self, agents: LocalAgents, shared: Rows, psi: dict[str, Array]) -> dict[str, Losses]:
        """Digest, then revisit."""
        able, others = by_ability(agents)
        return self._digest_and_revisit(able, shared, psi, self.passes) | train_as_one_set(others, shared, psi)

    def _digest_and_revisit(
        self, agents: LocalAgents, shared: Rows, labels: dict[str, Array], passes: int
    ) -> dict[str, Losses]:
        digested = agents.subset(agents.names, report=False).train_on_shared(shared, labels, passes)
        revisited = agents.train(shared, {}, 0.0)
        return {name: combine_losses(revisited[name], digested[name]) for name in agents.names}


@LEARNING.add("one-set")
@final
@dataclass(frozen=True)
class OneSet(OneAfterAnother):
    """min over D_i u (X*, psi_i): every shared sample counts as `weight` private ones, whatever lam is."""

    weight: float = option(1.0, "of a shared sample, where a private one has 1", above=0)

    def teach(self, agents: LocalAgents, shared: Rows, psi: dict[str, Array]) -> dict[str, Losses]:
        """Both as one set."""
        return train_as_one_set(agents, shared, psi, self.weight)
