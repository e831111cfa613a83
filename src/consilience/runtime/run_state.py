"""What a checkpoint holds of a run, and the facts by which a run resumes from its own checkpoints alone."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, HasTrainingSettings, Publishes, implements
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count, take
from consilience.methods.protocol import Exchange, Memory, Method, Round, Start, StatefulExchange
from consilience.runtime import checkpoint
from consilience.runtime.baseline import Baseline
from consilience.runtime.checkpoint import by_agent, flat, with_prefix
from consilience.runtime.group import Group, tables_to_first
from consilience.runtime.history import History
from consilience.runtime.privacy_budget import mechanism_of
from consilience.runtime.summary import Summary
from consilience.tasks.protocol import Array

Identity = dict[str, str]
"""Facts by name. All must be the same when a run is resumed."""
ORDER = "the order of the agents"
PRIVATE = "the private data"
"""The rows of a private agent: no message shows their fingerprint."""
_LONGEST = 200
"""Most characters of a value in an error message."""


def identity(
    summary: Summary, method: Method, local: LocalAgents, options: Mapping[str, str], group: Group
) -> Identity:
    """The facts of a run: its method and `options`, task, seed, data, the order of the agents, and for each agent its
    model, its own data and how it trains. Those of other processes are known in the first."""
    facts = {
        "the method": type(method).__name__,
        "the task": summary.task,
        "the seed": str(summary.seed),
        "the shared data": f"{summary.shared_samples} samples {summary.data[:16]}",
        ORDER: ", ".join(summary.names),
    }
    facts |= {f"the option {key}": value for key, value in options.items()}
    for agent in summary.agents:
        facts[f"the model of agent {agent.name}"] = f"{agent.model} {agent.parameters or ''}".strip()
    known = tables_to_first(group, {agent.name: _agent_facts(agent) for agent in local})
    for name in summary.names:
        facts |= {f"{fact} of agent {name}": text for fact, text in known.get(name, {}).items()}
    return facts


def _agent_facts(agent: Agent) -> Identity:
    """The data of one agent, and its training settings."""
    prints = getattr(agent, "fingerprint", None)
    kind = PRIVATE if mechanism_of(agent) is not None else "the data"
    data = {kind: f"{agent.samples} samples {str(prints())[:16] if callable(prints) else ''}".strip()}
    return data | (
        cast(HasTrainingSettings, agent).training_settings() if implements(agent, HasTrainingSettings) else {}
    )


def identity_array(facts: Identity) -> Array:
    """As an array, for a checkpoint."""
    return np.frombuffer(json.dumps(facts, sort_keys=True).encode(), np.uint8)


def check_identity(saved: Array, now: Identity, folder: Path) -> None:
    """Refuses a checkpoint of another run, and names all differences."""
    before: Identity = json.loads(saved.tobytes())
    differing = [
        name
        if name.startswith(PRIVATE)
        else f"{name} ({_short(before.get(name, 'unknown'))}, now {_short(now.get(name, 'unknown'))})"
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]
    if differing:
        raise ConsilienceError(
            f"the checkpoint in {folder} is of another run; what differs is {'; '.join(differing)}. "
            "Resume with what it was begun with (there may be more rounds), or start again in another folder."
        )


def check_private_data(agent: Agent, saved: Array | None, folder: Path) -> None:
    """Refuses rows that a private agent did not train on. Only the checkpoint has their fingerprint."""
    if mechanism_of(agent) is None:
        return
    facts = json.loads(saved.tobytes()) if saved is not None else {}
    if facts.get(f"{PRIVATE} of agent {agent.name}") != _agent_facts(agent)[PRIVATE]:
        raise ConsilienceError(
            f"the private data of agent {agent.name!r} are not those of the run in {folder}. Bring back the data that "
            "it was made with, or run it again."
        )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


ROWS = 64
"""Number of shared rows with stored predictions, evenly spread."""
CLOSE = 1e-5
"""How far apart two predictions of one model may be, relative to the largest."""


def reference_predictions(agent: Agent, method: Method, shared: Rows, published: Array) -> Array:
    """The agent's predictions on some shared rows; `published` are those on all of them, which may be rounded."""
    rows = _rows(count(shared))
    exact = method.wire.form == "float32" and not implements(agent, Publishes)
    return np.asarray(published[rows] if exact else agent.predict(take(shared, rows)), dtype=np.float32)


def check_reference_predictions(agent: Agent, shared: Rows, arrays: dict[str, Array], where: str) -> None:
    """Refuses an agent restored from a checkpoint's `arrays` that predicts something else than the trained one did."""
    stored = arrays.get(f"reference/{agent.name}", np.zeros(0, np.float32))
    f = agent.predict(take(shared, _rows(count(shared))))
    scale = max(1.0, float(np.abs(stored).max(initial=0)))
    if f.shape != stored.shape or not float(np.abs(f - stored).max(initial=0)) <= CLOSE * scale:
        raise ConsilienceError(
            f"the model of agent {agent.name!r} in {where} cannot be restored: fitted again, its predictions differ "
            "from those after training. Were its training data, its Python file or a library changed since? "
            "Bring them back, or train again."
        )


def _rows(samples: int) -> Array:
    return np.linspace(0, samples - 1, min(ROWS, samples)).astype(np.intp)


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
