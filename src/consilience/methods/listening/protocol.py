"""The interface of listening, and its result."""

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
    """What the agents of this process heard in a round, and what follows: f_j, w_ij and psi_i."""

    number: int
    """The round that was exchanged. It is later than the one asked for if this site was away."""
    names: tuple[str, ...]
    """Agents that were heard, in the order of the roster."""
    predictions: dict[str, Array]
    """f_j, as they were published."""
    trust: Array
    """w_ij, (agents of this process, roster), or (agents of this process, heard) in sparse exchange."""
    psi: dict[str, Array]
    """psi_i by agent. An agent that was not heard has none, and trains alone."""
    memory: ConsensusMemory
    sent: dict[str, int]
    """Bytes, by agent."""
    by_class: dict[str, Array] = field(default_factory=dict)
    peers: NDArray[np.integer] | None = None
    """In sparse exchange: the peers of each agent as indices in the roster, (agents of this process, heard)."""
    duals: dict[str, Array] | None = None
    """u_i in hindsight, by agent (`core.duals.duals_in_hindsight`); None where they are added up round by round."""

    def record(self, own: dict[str, Array], losses: dict[str, Losses], samples: int, hears_last_round: bool) -> Record:
        """The record of the round; with `hears_last_round` it holds the predictions that were received."""
        cost = {name: add_forward_cost(loss, samples) for name, loss in losses.items()}
        received = self.predictions if hears_last_round else {}
        return Record(own, cost, self.sent, self.names, received, self.trust, self.by_class, self.peers)


@dataclass(frozen=True)
class ListeningContext:
    """What stays the same in all rounds: who listens, through which exchange, and how trust is computed."""

    agents: LocalAgents
    """Agents of this process."""
    exchange: Exchange
    """How predictions travel."""
    mixing: Mixing
    """Trust rule and schedule."""
    seed: int
    """Seed of random peers."""


class Listening(Protocol):
    """Whom agents hear: a frozen dataclass whose fields are its options."""

    def listen(self, context: ListeningContext, t: int, own: dict[str, Array], memory: ConsensusMemory) -> Heard:
        """Publishes `own` in round t, and returns f_j, w_ij and psi_i for the agents of this process.

        Args:
            context: Agents, exchange, trust rule and schedule, and seed.
            t: Round.
            own: f_i(X*), by agent.
            memory: State after the last round.
        """
