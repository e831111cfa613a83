"""The facts that identify a run, by which it resumes, and predictions by which a restored model is verified."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, HasTrainingSettings, Publishes, implements
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count, take
from consilience.methods.protocol import Method
from consilience.runtime.group import Group, tables_to_first
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


def identity(summary: Summary, method: Method, team: LocalAgents, options: Mapping[str, str], group: Group) -> Identity:
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
    known = tables_to_first(group, {agent.name: _agent_facts(agent) for agent in team})
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
