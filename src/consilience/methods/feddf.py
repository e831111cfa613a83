"""FedDF: models are averaged, and the average is trained on the mean of their predictions on the shared data."""

from dataclasses import dataclass, replace
from typing import cast, final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import (
    Averageable,
    Losses,
    TrainsOnShared,
    Weights,
    add_forward_cost,
    copied,
    implements,
)
from consilience.base.errors import ConsilienceError
from consilience.base.options import option
from consilience.base.rows import Rows
from consilience.core.distillation import mean_logits
from consilience.methods import METHODS
from consilience.methods.server import ServerMethod, ShareArrays
from consilience.tasks.protocol import require_classes


@METHODS.add("feddf")
@final
@dataclass(frozen=True)
class FedDF(ServerMethod):
    """x <- sum_i p_i y_i, then x distils softmax(1/N sum_i z(y_i)) on the shared data (Lin et al., 2020, Algorithm 1).

    z(y_i) are the logits of agent i's model. The server distils with the agents' optimizer, batches and learning rate,
    for a fixed number of passes, as it has no labels to stop by. Only weights travel: the server predicts by itself.
    """

    passes: int = option(5, "over the shared data in a round, by the server", at_least=1)

    def add_cost(self, losses: Losses, first: bool, samples: int) -> Losses:
        """The server predicts with every agent's model, and trains its own."""
        return replace(add_forward_cost(losses, samples), trained=losses.trained + first * self.passes * samples)

    def after_average(self, x: Weights, agents: LocalAgents, shared: Rows, share: ShareArrays) -> Weights:
        """The average after its distillation, which the process of the first agent carries out."""
        task = agents.first.task
        require_classes(
            task, f"FedDF distils the logits of classes, and {task.name} has none. Use fedavg, or consensus."
        )
        f = {agent.name: own for agent, own in agents.predicted(shared)}
        predictions = share({name: {"f": f[name]} for name in agents.names})
        first = next(iter(predictions))
        distilled: dict[str, Weights] = {}
        for agent in [agent for agent in agents if agent.name == first]:
            if not implements(agent, TrainsOnShared):
                raise ConsilienceError(
                    f"agent {first!r} ({agent.kind}) cannot train on the shared data alone, as the server of FedDF "
                    "must. Use fedavg."
                )
            server = copied(agent)
            cast(Averageable, server).set_weights(x)
            cast(Averageable, server).reset_optimizer()
            psi = mean_logits(np.stack([arrays["f"] for arrays in predictions.values()]))
            LocalAgents([server]).train_on_shared(shared, {first: psi}, self.passes)
            distilled[first] = cast(Averageable, server).weights()
        return share(distilled)[first]
