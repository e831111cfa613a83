"""Everyone alone: what agents reach without each other, with the same number of rounds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from consilience.agents.local_agents import LocalAgents
from consilience.base.options import Options
from consilience.core.wire import Wire
from consilience.methods import METHODS
from consilience.methods.protocol import Exchange, Record, Round, Start
from consilience.tasks.protocol import Array


@METHODS.add("alone")
@final
@dataclass(frozen=True)
class Alone(Options):
    """No exchange, no shared pass."""

    label = title = "alone"
    warmup, uses_shared, wire = 0, False, Wire()

    def rounds(self, agents: LocalAgents, shared: Array, exchange: Exchange, start: Start) -> Iterator[Round]:
        """Local training, round by round."""
        for t in range(start.done + 1, start.rounds + 1):
            losses = agents.train(shared, {}, lam=0.0)
            yield Round(t, Record(agents.published(shared), losses, sent=dict.fromkeys(agents.names, 0)))
