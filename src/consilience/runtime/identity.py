"""Which run a checkpoint is of: settings, data, seed and agents. A run resumes from its own checkpoints alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from consilience.agents.team import Team
from consilience.errors import ConsilienceError
from consilience.methods.protocol import Method
from consilience.runtime.group import Group
from consilience.runtime.summary import Summary
from consilience.tasks.protocol import Array

Identity = dict[str, str]
"""Facts by name, each of which must be the same when a run is resumed."""


def identity(summary: Summary, method: Method, team: Team, options: Mapping[str, str], group: Group) -> Identity:
    """Of a run: its method and `options`, task, seed, data, and for each agent its model and its own data."""
    facts = {
        "the method": type(method).__name__,
        "the task": summary.task,
        "the seed": str(summary.seed),
        "the shared data": f"{summary.shared_samples} samples {summary.data[:16]}",
    }
    facts |= {f"the option {key}": value for key, value in options.items()}
    facts |= {f"the model of agent {one.name}": f"{one.model} {one.parameters or ''}".strip() for one in summary.agents}
    own = {}
    for agent in team:
        prints = getattr(agent, "fingerprint", None)
        text = f"{agent.samples} samples {str(prints())[:16] if callable(prints) else ''}"
        own[agent.name] = np.frombuffer(text.encode(), np.uint8)
    found = {name: text.tobytes().decode() for name, text in group.to_first(own).items()}
    return facts | {f"the data of agent {name}": found[name] for name in summary.names if name in found}


def packed(facts: Identity) -> Array:
    """As an array, for a checkpoint."""
    return np.frombuffer(json.dumps(facts, sort_keys=True).encode(), np.uint8)


def check_identity(saved: Array | None, now: Identity, folder: Path) -> None:
    """Refuses a checkpoint of another run, with everything in which it differs."""
    try:
        before: Any = json.loads(saved.tobytes()) if saved is not None else None
    except ValueError:
        before = None
    if not isinstance(before, dict):
        raise ConsilienceError(
            f"the checkpoint in {folder} was made by another version of consilience. Start again in another folder."
        )
    differing = [
        f"{name} ({before.get(name, 'unknown')}, now {now.get(name, 'unknown')})"
        for name in {**now, **before}
        if before.get(name) != now.get(name)
    ]
    if differing:
        raise ConsilienceError(
            f"the checkpoint in {folder} is of another run; what differs is {'; '.join(differing)}. "
            "Resume with what it was begun with (there may be more rounds), or start again in another folder."
        )


def shown_option(value: Any) -> str:
    """An option's value as text that is the same in every process."""
    return str(getattr(value, "__qualname__", value))
