"""What a trained model said of some shared rows, kept with its checkpoint: so one made anew is known to be the same."""

import numpy as np

from consilience.agents.protocol import Agent, Publishes, implements
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count, take
from consilience.methods.protocol import Method
from consilience.runtime.checkpoint import with_prefix
from consilience.tasks.protocol import Array

ROWS = 64
"""Shared rows of which it is kept, evenly spread."""
CLOSE = 1e-5
"""How far apart two predictions of one model may be."""


def reference_predictions(agent: Agent, method: Method, shared: Rows, said: Array) -> Array:
    """What the agent predicts for some shared rows; `said` is what it publishes of all of them, often the same."""
    rows = _rows(count(shared))
    exact = method.wire.form == "float32" and not implements(agent, Publishes)
    return np.asarray(said[rows] if exact else agent.predict(take(shared, rows)), dtype=np.float32)


def check_reference_predictions(agent: Agent, shared: Rows, arrays: dict[str, Array], where: str) -> None:
    """Refuses an agent that was restored from a checkpoint's `arrays` and is not the one that was trained."""
    kept = with_prefix(arrays, "witness/").get(agent.name)
    if kept is None:  # of an earlier version
        return
    found = agent.predict(take(shared, _rows(count(shared))))
    scale = max(1.0, float(np.abs(kept).max(initial=0)))
    if found.shape != kept.shape or not float(np.abs(found - kept).max(initial=0)) <= CLOSE * scale:
        raise ConsilienceError(
            f"the model of agent {agent.name!r} in {where} cannot be made anew: fitted again, it predicts something "
            "else than it did after training. Were its training data, its Python file or a library changed since? "
            "Bring them back, or train again."
        )


def _rows(samples: int) -> Array:
    return np.linspace(0, samples - 1, min(ROWS, samples)).astype(np.intp)
