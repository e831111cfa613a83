"""The shared data first, then back to the private data."""

from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, Losses
from consilience.base.options import option
from consilience.base.rows import Rows
from consilience.methods.learning import LEARNING
from consilience.methods.learning.protocol import (
    OneAfterAnother,
    as_one_set,
    check_shared_labels,
    combined,
    pupil,
)
from consilience.tasks.protocol import Array, Task


@LEARNING.add("revisit")
@final
@dataclass(frozen=True)
class Revisit(OneAfterAnother):
    """min dist(f(X*), psi_i), then min L(f(X_i), y_i): digest, then revisit.

    An agent that is fitted afresh every round would forget the first, and learns both as one set.
    """

    passes: int = option(5, "over the shared data in a round", at_least=1)
    shared_labels: tuple[int, ...] = option((), "classes of the shared data, where they are known")
    pretraining: int = option(20, "passes over the shared data with these labels before the first round", at_least=1)

    def check(self, task: Task, samples: int, warmup: int) -> None:
        """Refuses true labels that are not those of the shared data."""
        check_shared_labels(len(self.shared_labels), samples, warmup)

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """Training alone; with true labels of the shared data, these before the first round.

        An agent that is fitted afresh has them in every round of the warm-up.
        """
        if not self.shared_labels:
            return super().warm_up(agents, shared, t, own)
        true = agents.first.task.targets(np.array(self.shared_labels), agents.first.outputs)

        def trained(agent: Agent) -> Losses:
            able = pupil(agent)
            if able is None:
                return as_one_set(agent, shared, true)
            first = able.train_on_shared(shared, true, self.pretraining) if t == 1 else Losses(0.0)
            return combined(agent.train(shared, None, 0.0), first)

        return agents.each(trained)

    def teach(self, agent: Agent, shared: Rows, psi: Array) -> Losses:
        """Digest, then revisit."""
        able = pupil(agent)
        if able is None:
            return as_one_set(agent, shared, psi)
        digested = able.train_on_shared(shared, psi, self.passes)
        return combined(agent.train(shared, None, 0.0), digested)
