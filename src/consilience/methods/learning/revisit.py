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
    check_shared_labels,
    combine_losses,
    train_as_one_set,
    trains_on_shared,
)
from consilience.tasks.protocol import Array, Task


@LEARNING.add("revisit")
@final
@dataclass(frozen=True)
class Revisit(OneAfterAnother):
    """min dist(f(X*), psi_i), then min L(f(X_i), y_i): digest, then revisit.

    An agent that is fitted from scratch every round would forget the shared data, and learns both as one set.

    Args:
        passes: Passes over the shared data in a round.
        shared_labels: Classes of the shared data, if they are known.
        pretraining: Passes over the shared data with these labels before the first round.
    """

    passes: int = option(5, "over the shared data in a round", at_least=1)
    shared_labels: tuple[int, ...] = option((), "classes of the shared data, where they are known")
    pretraining: int = option(20, "passes over the shared data with these labels before the first round", at_least=1)

    def check(self, task: Task, samples: int, warmup: int) -> None:
        """Raises an error if the number of true labels is not that of the shared samples."""
        check_shared_labels(len(self.shared_labels), samples, warmup)

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """Training alone; in the first round after training on the true labels of the shared data, if there are any.

        An agent that is fitted from scratch uses these labels in every round of the warm-up.
        """
        if not self.shared_labels:
            return super().warm_up(agents, shared, t, own)
        true = agents.first.task.targets(np.array(self.shared_labels), agents.first.outputs)

        def train(agent: Agent) -> Losses:
            able = trains_on_shared(agent)
            if able is None:
                return train_as_one_set(agent, shared, true)
            first = able.train_on_shared(shared, true, self.pretraining) if t == 1 else Losses(0.0)
            return combine_losses(agent.train(shared, None, 0.0), first)

        return agents.each(train)

    def teach(self, agent: Agent, shared: Rows, psi: Array) -> Losses:
        """Digest, then revisit."""
        able = trains_on_shared(agent)
        if able is None:
            return train_as_one_set(agent, shared, psi)
        digested = able.train_on_shared(shared, psi, self.passes)
        return combine_losses(agent.train(shared, None, 0.0), digested)
