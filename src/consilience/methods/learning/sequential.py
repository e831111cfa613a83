"""Private data first; then agents publish; then the shared data."""

from dataclasses import dataclass
from typing import final

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, Losses
from consilience.base.options import option
from consilience.base.rows import Rows
from consilience.methods.learning import LEARNING
from consilience.methods.learning.protocol import OneAfterAnother, train_as_one_set, trains_on_shared
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
        """Agents that can train on the shared data alone now train on their private data."""
        return {agent.name: agent.train(shared, None, 0.0) for agent in agents if trains_on_shared(agent)}

    def teach(self, agent: Agent, shared: Rows, psi: Array) -> Losses:
        """The shared data alone, or both as one set."""
        able = trains_on_shared(agent)
        return train_as_one_set(agent, shared, psi) if able is None else able.train_on_shared(shared, psi, self.passes)
