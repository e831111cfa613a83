"""Dual variables: the accumulated disagreement of an agent with its pseudo-labels."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.core.duals import dual_update
from consilience.methods.memory import ConsensusMemory
from consilience.tasks.protocol import Array


@final
@dataclass(frozen=True)
class DualVariables:
    """u_i <- u_i + step (z_i - t_i), and pseudo-labels with the logits t_i - u_i (`core/duals.py`).

    An agent that predicted above its target gets a lower target next round. An agent that was not heard keeps its u_i.
    """

    step: float

    def __call__(
        self, agents: LocalAgents, own: dict[str, Array], psi: dict[str, Array], memory: ConsensusMemory
    ) -> tuple[dict[str, Array], ConsensusMemory]:
        """`core.duals.dual_update` for every agent."""
        task = agents.first.task
        labels, kept = {}, dict(memory.agents)
        for name, f in own.items():
            before = memory.of(name).duals
            u = np.zeros_like(f) if before is None else before
            if name in psi:
                u, labels[name] = dual_update(u, f, psi[name], self.step, task.scale)
            kept[name] = replace(memory.of(name), duals=u)
        return labels, ConsensusMemory(memory.rule, kept)
