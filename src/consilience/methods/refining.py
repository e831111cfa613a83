"""Changes of what was heard before agents learn from it: new pseudo-labels and memory."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.core.class_prior import match_class_prior
from consilience.core.duals import dual_update, shifted_labels
from consilience.methods.listening.protocol import Heard
from consilience.tasks.protocol import Array

PRIORS = ("unknown", "even")


@final
@dataclass(frozen=True)
class EvenClasses:
    """psi_i with a mean over samples near 1/C for each class (`core/class_prior.py`)."""

    def __call__(self, agents: LocalAgents, own: dict[str, Array], heard: Heard) -> Heard:
        """`core.class_prior.match_class_prior` for every agent."""
        even = np.full(agents.first.outputs, 1 / agents.first.outputs)
        return replace(heard, psi={name: match_class_prior(labels, even) for name, labels in heard.psi.items()})


@final
@dataclass(frozen=True)
class DualVariables:
    """u_i <- u_i + step (z_i - t_i), and pseudo-labels with the logits t_i - u_i (`core/duals.py`).

    An agent that predicted above its target gets a lower target next round. An agent that was not heard keeps its u_i.
    Where the agents heard have told u_i in hindsight, it is that.
    """

    step: float

    def __call__(self, agents: LocalAgents, own: dict[str, Array], heard: Heard) -> Heard:
        """`core.duals.dual_update` for every agent, or `core.duals.shifted_labels`."""
        task, memory = agents.first.task, heard.memory
        if heard.duals is not None:
            shifted = {name: shifted_labels(psi, heard.duals[name], task.scale) for name, psi in heard.psi.items()}
            return replace(heard, psi=shifted)
        labels, kept = {}, dict(memory.agents)
        for name, f in own.items():
            before = memory.of(name).duals
            u = np.zeros_like(f) if before is None else before
            if name in heard.psi:
                u, labels[name] = dual_update(u, f, heard.psi[name], self.step, task.scale)
            kept[name] = replace(memory.of(name), duals=u)
        return replace(heard, psi=labels, memory=replace(memory, agents=kept))
