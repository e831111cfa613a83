"""The shared data first, then back to the private data."""

from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses
from consilience.base.options import option
from consilience.base.rows import Rows
from consilience.methods.learning import LEARNING
from consilience.methods.learning.protocol import (
    OneAfterAnother,
    by_ability,
    check_shared_labels,
    combine_losses,
    train_as_one_set,
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
