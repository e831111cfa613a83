"""What a checkpoint holds of a run: agents, the method's memory, the exchange, the history and the baseline."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import implements
from consilience.base.errors import ConsilienceError
from consilience.methods.protocol import Exchange, Memory, Method, Round, Start, StatefulExchange
from consilience.runtime import checkpoint
from consilience.runtime.baseline import Baseline
from consilience.runtime.checkpoint import by_agent, flat, with_prefix
from consilience.runtime.group import Group
from consilience.runtime.history import History
from consilience.runtime.run_fingerprint import Identity, check_identity, identity_array, reference_predictions
from consilience.tasks.protocol import Array

_FOR_ALL = ("agent/", "common/", "own/", "exchange/", "seconds")
"""Arrays that every process needs to resume; the others belong to the first process alone."""


@final
@dataclass(frozen=True)
class RunState:
    """All that goes through the checkpoints in `folder`. The first process of the `group` reads and writes them."""

    folder: Path
    identity: Identity
    method: Method
    agents: LocalAgents
    """Those of this process."""
    shared: Array
    measured: Array
    """The shared rows that are not crossed."""
    exchange: Exchange
    group: Group
    history: History
    baseline: Baseline | None = None

    def save(self, done: Round, seconds: float) -> None:
        """Writes the state after a round: agents of all processes, and `seconds` of run time so far."""
        own = flat({agent.name: agent.state() for agent in self.agents}, "agent/")
        for agent in self.agents:
            published = done.record.predictions[agent.name]
            own[f"reference/{agent.name}"] = reference_predictions(agent, self.method, self.measured, published)
        arrays = self.group.to_first(own)
        if not self.group.first:
            return
        arrays |= {"seconds": np.array(seconds), "run": identity_array(self.identity)}
        arrays |= flat({"history": self.history.arrays(), "common": done.memory.common})
        arrays |= flat(done.memory.own, "own/")
        if implements(self.exchange, StatefulExchange):
            arrays |= flat({"exchange": cast(StatefulExchange, self.exchange).state()})
        if self.baseline is not None:
            arrays |= flat({"baseline": self.baseline.arrays()})
        checkpoint.write(self.folder / "checkpoint", done.number, arrays)

    def resume(self, start: Start) -> tuple[Start, float]:
        """Restores everything from the newest checkpoint, if there is one; returns the new start and the seconds."""
        done, arrays = self._read() if self.group.first else (0, {})
        for_all = {key: value for key, value in arrays.items() if key.startswith(_FOR_ALL)}
        for_all = self.group.from_first(for_all | {"round": np.array(done)})
        done = int(for_all["round"])
        if not done:
            return start, 0.0
        states = by_agent(for_all, "agent/")
        for agent in self.agents:
            if agent.name not in states:
                raise ConsilienceError(
                    f"the checkpoint in {self.folder} knows no agent {agent.name!r}. Resume with the same agents."
                )
            agent.restore(states[agent.name], self.shared)
        if self.group.first:
            self.history.restore(with_prefix(arrays, "history/"))
        if self.baseline is not None:
            self.baseline.restore(with_prefix(arrays, "baseline/"), self.shared)
        if implements(self.exchange, StatefulExchange):
            cast(StatefulExchange, self.exchange).restore(with_prefix(for_all, "exchange/"))
        memory = Memory(with_prefix(for_all, "common/"), by_agent(for_all, "own/"))
        return replace(start, done=done, memory=memory), float(for_all["seconds"])

    def _read(self) -> tuple[int, dict[str, Array]]:
        """The newest checkpoint that can be read: its round and arrays. One of another run is refused."""
        done, arrays, damaged = checkpoint.read(self.folder / "checkpoint")
        if damaged:
            warnings.warn(
                f"passed over damaged checkpoints: {', '.join(damaged)}; going on from round {done}", stacklevel=4
            )
        if done:
            check_identity(arrays["run"], self.identity, self.folder)
        return done, arrays
