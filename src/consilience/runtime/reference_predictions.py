"""Predictions of a trained model on some shared rows, stored in its checkpoint to verify a restored model."""

import numpy as np

from consilience.agents.protocol import Agent, Publishes, implements
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count, take
from consilience.methods.protocol import Method
from consilience.tasks.protocol import Array

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
