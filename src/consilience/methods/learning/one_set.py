"""The labelled shared data join the private training set."""

from dataclasses import dataclass
from typing import final

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses
from consilience.base.options import option
from consilience.base.rows import Rows
from consilience.methods.learning import LEARNING
from consilience.methods.learning.protocol import OneAfterAnother, train_as_one_set
from consilience.tasks.protocol import Array


@LEARNING.add("one-set")
@final
@dataclass(frozen=True)
class OneSet(OneAfterAnother):
    """min over D_i u (X*, psi_i): every shared sample counts as `weight` private ones, whatever lam is.

    Args:
        weight: Weight of a shared sample; a private one has 1.
    """

    weight: float = option(1.0, "of a shared sample, where a private one has 1", above=0)

    def teach(self, agents: LocalAgents, shared: Rows, psi: dict[str, Array]) -> dict[str, Losses]:
        """Both as one set."""
        return train_as_one_set(agents, shared, psi, self.weight)
