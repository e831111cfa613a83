"""FedMD: everyone approaches the mean of all logits on the shared data, then goes back to its private data."""

from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.agents.protocol import Agent, Losses
from consilience.agents.team import Team
from consilience.core.distillation import mean_logits
from consilience.errors import ConsilienceError
from consilience.methods import METHODS
from consilience.methods.distillation import Distillation
from consilience.methods.phases import after, digests
from consilience.options import option
from consilience.rows import Rows
from consilience.tasks.protocol import Array, Task


@METHODS.add("fedmd")
@final
@dataclass(frozen=True)
class FedMD(Distillation):
    """psi = softmax(1/N sum_j z_j), z_j the logits of agent j; digest psi, then revisit (Li and Wang, 2019).

    Agents first train on the shared data with their true labels, where `shared_labels` gives them, and then alone for
    the warm-up; without labels there is only the warm-up. The paper's distance between logits is here the task's, the
    cross-entropy with psi. An agent that is fitted anew in every round learns psi and its private data at once, since
    what it digested it would forget. All shared data are used in every round.
    """

    passes: int = option(5, "over the shared data in a round, to digest", at_least=1)
    floor: float = option(1e-3, "the smallest probability that has a logit; smaller ones count as it", above=0, below=1)
    shared_labels: tuple[int, ...] = option((), "classes of the shared data, where they are known")
    pretraining: int = option(20, "passes over the shared data with these labels before the first round", at_least=1)

    def labels(self, f: Array) -> Array:
        """softmax of the mean of all logits."""
        return mean_logits(f, self.floor)

    def alone(self, agents: Team, shared: Rows, number: int) -> dict[str, Losses]:
        """Training alone; with true labels of the shared data, these before the first round.

        An agent that is fitted anew has them in every round of the warm-up.
        """
        if not self.shared_labels:
            return super().alone(agents, shared, number)
        true = agents.first.task.targets(np.array(self.shared_labels), agents.first.outputs)

        def trained(agent: Agent) -> Losses:
            pupil = digests(agent)
            if pupil is None:
                return super(FedMD, self).learn(agent, shared, true)
            first = pupil.digest(shared, true, self.pretraining) if number == 1 else Losses(0.0)
            return after(agent.train(shared, None, 0.0), first)

        return agents.each(trained)

    def learn(self, agent: Agent, shared: Rows, labels: Array) -> Losses:
        """Digest, then revisit."""
        pupil = digests(agent)
        if pupil is None:
            return super().learn(agent, shared, labels)
        digested = pupil.digest(shared, labels, self.passes)
        return after(agent.train(shared, None, 0.0), digested)

    def check(self, task: Task, samples: int) -> None:
        """Refuses true labels that are not those of the shared data."""
        super().check(task, samples)
        if self.shared_labels and (len(self.shared_labels) != samples or not self.warmup):
            raise ConsilienceError(
                f"shared_labels has {len(self.shared_labels)} labels for {samples} shared samples, and the warm-up "
                f"{self.warmup} rounds. Give one label for each sample, and at least one round of warm-up."
            )
