"""Private and shared samples in the same steps: the local objective of the paper."""

from dataclasses import dataclass
from typing import final

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses
from consilience.base.options import option
from consilience.base.rows import Rows
from consilience.methods.learning import LEARNING
from consilience.methods.learning.protocol import LearningSteps
from consilience.tasks.protocol import Array


@LEARNING.add("joint")
@final
@dataclass(frozen=True)
class Joint(LearningSteps):
    """min L(f(X_i), y_i) + lam dist(f(X*), psi_i), label `step-local-update`; every step has samples of both."""

    warmup_shared: bool = option(False, "show batch norm the shared data in the warm-up, too; three times slower")

    def warm_up(self, agents: LocalAgents, shared: Rows, t: int, own: dict[str, Array]) -> dict[str, Losses]:
        """lam = 0; with `warmup_shared` the shared data pass through the model without a gradient."""
        return agents.train(shared, (own or agents.published(shared)) if self.warmup_shared else {}, lam=0.0)

    def learn(
        self, agents: LocalAgents, shared: Rows, psi: dict[str, Array], lam: float, private: dict[str, Losses]
    ) -> dict[str, Losses]:
        """Agents without pseudo-labels train alone."""
        return agents.train(shared, psi, lam)
