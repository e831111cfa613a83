"""What a way of listening returns."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Losses, add_forward_cost
from consilience.methods.memory import ConsensusMemory
from consilience.methods.mixing import Mixing
from consilience.methods.protocol import Exchange, Record
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class Heard:
    """What the agents of this process heard in a round: f_j, w_ij and psi_i."""

    number: int
    """Of the round that was exchanged, which is later than the one asked for if this site was away."""
    names: tuple[str, ...]
    """Agents that were heard, in the order of the roster."""
    predictions: dict[str, Array]
    """f_j, as they were published."""
    trust: Array
    """w_ij, (agents of this process, roster), or (agents of this process, heard) in sparse exchange."""
    psi: dict[str, Array]
    """psi_i by agent. Whoever was not heard has none, and trains alone."""
    memory: ConsensusMemory
    sent: dict[str, int]
    """Bytes, by agent."""
    by_class: dict[str, Array] = field(default_factory=dict)
    peers: NDArray[np.integer] | None = None
    """In sparse exchange: whom each agent heard, as indices in the roster (agents of this process, heard)."""

    def record(self, own: dict[str, Array], losses: dict[str, Losses], samples: int, after: bool) -> Record:
        """The round as it is written down. `after` the last round agents say what they say before the next."""
        cost = {name: add_forward_cost(each, samples) for name, each in losses.items()}
        received = self.predictions if after else {}
        return Record(own, cost, self.sent, self.names, received, self.trust, self.by_class, self.peers)


class Listening(Protocol):
    """Whom agents hear. Its fields are its options."""

    def listen(
        self,
        mixing: Mixing,
        agents: LocalAgents,
        exchange: Exchange,
        t: int,
        own: dict[str, Array],
        memory: ConsensusMemory,
        seed: int,
    ) -> Heard:
        """Publishes `own` in round t, and judges by what is heard: f_j, w_ij and psi_i for agents of this process."""
