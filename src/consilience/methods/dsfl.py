"""DS-FL: the mean of all predictions, made surer, is what everyone distils."""

from dataclasses import dataclass
from typing import final

from consilience.agents.protocol import Agent, Losses
from consilience.agents.team import Team
from consilience.core.distillation import sharpened_mean
from consilience.methods import METHODS
from consilience.methods.distillation import Distillation
from consilience.methods.phases import digests, train_first
from consilience.options import option
from consilience.rows import Rows
from consilience.tasks.protocol import Array


@METHODS.add("ds-fl")
@final
@dataclass(frozen=True)
class DSFL(Distillation):
    """psi = softmax(1/T 1/N sum_j f_j), entropy-reduction aggregation (Itahara et al., 2021).

    In a round everyone trains on its private data, publishes, and then distils psi on the shared data. An agent that is
    fitted anew in every round learns both at once, after it has published. All shared data are used in every round, and
    there is no model at a server.
    """

    temperature: float = option(0.1, "T of the softmax; the lower, the surer", above=0)
    passes: int = option(5, "over the shared data in a round, to distil", at_least=1)

    label = "ds-fl"
    title = "DS-FL"
    trains_first = True

    def labels(self, f: Array) -> Array:
        """Entropy-reduction aggregation."""
        return sharpened_mean(f, self.temperature)

    def before(self, agents: Team, shared: Rows) -> dict[str, Losses]:
        """Those who can distil by itself train on their private data first."""
        return train_first(agents, shared)

    def learn(self, agent: Agent, shared: Rows, labels: Array) -> Losses:
        """Distils."""
        pupil = digests(agent)
        return super().learn(agent, shared, labels) if pupil is None else pupil.digest(shared, labels, self.passes)
