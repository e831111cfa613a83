"""FD: agents share their mean prediction for each class, without shared data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, OwnRows, add_forward_cost, implements
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.base.rows import Rows
from consilience.core.distillation import class_means, others_means
from consilience.core.wire import Wire
from consilience.methods import METHODS
from consilience.methods.protocol import Exchange, Record, Round, Start
from consilience.methods.server import sharing
from consilience.tasks.protocol import Array, require_classes


@METHODS.add("fd")
@final
@dataclass(frozen=True)
class FD(Options):
    """L(f(x), y) + gamma L(f(x), T_iy), T_ic the mean over j != i of agent j's mean prediction for class c.

    Federated distillation (Jeong et al., 2018). Only these means travel, to a server and back; the shared data are used
    for evaluation only. Means are of the predictions after local training; in the paper, of those during training. For
    a class that no other agent has, T is the label itself. Models may be of any kind.
    """

    warmup: int = option(1, "rounds of training alone before the first means", at_least=1)
    gamma: float = option(1.0, "weight of the distance to the others' means", above=0)

    label, title = "fd", "FD"
    uses_shared, wire = False, Wire()

    def rounds(self, agents: LocalAgents, shared: Rows, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Rounds of averaging predictions by class and of training towards the others' averages."""
        task, roster = agents.first.task, exchange.roster
        require_classes(task, f"FD averages predictions by class, and {task.name} has none. Use consensus.")
        share = sharing(exchange, "FD shares means of predictions")
        for agent in agents:
            _check_rows(agent)
        for t in range(start.done + 1, start.rounds + 1):
            heard: tuple[str, ...] = ()
            sent = dict.fromkeys(agents.names, 0)
            if t <= self.warmup:
                losses = agents.train(shared, {}, lam=0.0)
            else:
                means = share({agent.name: {"means": _means(agent)} for agent in agents})
                missing = [name for name in roster if name not in means]
                if missing:
                    raise ConsilienceError(
                        f"agents {', '.join(missing)} live in another process, but FD averages all predictions in one. "
                        "Put all agents into one process, or use consensus."
                    )
                heard = roster
                teacher = dict(zip(roster, others_means(np.stack([means[n]["means"] for n in roster])), strict=True))
                sent = {name: means[name]["means"].nbytes + teacher[name].nbytes for name in agents.names}
                labels = {agent.name: teacher[agent.name][cast(OwnRows, agent).labels] for agent in agents}
                losses = agents.train_on_own(labels, self.gamma)
                losses = {agent.name: add_forward_cost(losses[agent.name], agent.samples) for agent in agents}
            yield Round(t, Record(agents.published(shared), losses, sent, heard))


def _check_rows(agent: Agent) -> None:
    """Raises an error if an agent does not give the method access to its private data."""
    if not implements(agent, OwnRows):
        raise ConsilienceError(
            f"agent {agent.name!r} ({agent.kind}) does not show its private data to a method (`rows` and `labels`), "
            "and FD needs predictions for them. Use consensus."
        )
    cast(OwnRows, agent).rows  # noqa: B018


def _means(agent: Agent) -> Array:
    own = cast(OwnRows, agent)
    return class_means(agent.predict(own.rows), own.labels, agent.outputs)
