"""Pseudo-labels with the known class frequencies of the shared data."""

from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.core.class_prior import match_class_prior
from consilience.methods.memory import ConsensusMemory
from consilience.tasks.protocol import Array

PRIORS = ("unknown", "even")


@final
@dataclass(frozen=True)
class EvenClasses:
    """psi_i with a mean over samples near 1/C for each class (`core/class_prior.py`)."""

    def __call__(
        self, agents: LocalAgents, own: dict[str, Array], psi: dict[str, Array], memory: ConsensusMemory
    ) -> tuple[dict[str, Array], ConsensusMemory]:
        """`core.class_prior.match_class_prior` for every agent."""
        even = np.full(agents.first.outputs, 1 / agents.first.outputs)
        return {name: match_class_prior(labels, even) for name, labels in psi.items()}, memory
