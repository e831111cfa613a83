"""Private data first; then agents publish; then the shared data."""

from dataclasses import dataclass
from typing import final

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses
from consilience.base.options import option
from consilience.base.rows import Rows
from consilience.methods.learning import LEARNING
from consilience.methods.learning.protocol import OneAfterAnother, by_ability, train_as_one_set
from consilience.tasks.protocol import Array


@LEARNING.add("sequential")
@final
@dataclass(frozen=True)
class Sequential(OneAfterAnother):
    """min L(f(X_i), y_i), publish f_i(X*), then min dist(f(X*), psi_i).

    An agent that is fitted from scratch every round would forget the private data, and learns both as one set.

    Args:
        passes: Passes over the shared data in a round.
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
