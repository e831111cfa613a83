"""How predictions travel. The only communication of the method goes through `Exchange.gather`."""

from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from consilience.agents.protocol import Array, Task
from consilience.errors import ConsilienceError
from consilience.runtime.wire import Wire


@dataclass(frozen=True)
class Heard:
    """What one process knows after an exchange."""

    predictions: dict[str, Array]
    """Predictions on the shared data by agent. An agent that is missing here was not heard this round."""
    sent: dict[str, int]
    """Bytes that each agent of this process sent."""
    number: int = 0
    """The round that was exchanged, if it is later than the one asked for: a site that was away takes it up."""


class Exchange(Protocol):
    """Publishes the predictions of this process's agents and returns those of everyone who was heard."""

    roster: tuple[str, ...]
    """All agents. Its order is the order of rows and columns of every trust matrix."""

    def gather(self, number: int, spoken: dict[str, Array]) -> Heard:
        """Exchanges the predictions of round `number`."""


@final
class InMemory:
    """All agents live in this process. Bytes are counted as if each had sent its predictions to every peer."""

    def __init__(self, roster: tuple[str, ...], wire: Wire | None = None) -> None:
        self.roster = roster
        self._wire = wire or Wire()

    def gather(self, number: int, spoken: dict[str, Array]) -> Heard:
        """Everyone hears everyone."""
        peers = len(self.roster) - 1
        return Heard(dict(spoken), {name: self._wire.size(*f.shape) * peers for name, f in spoken.items()})


def checked_predictions(name: str, f: Array, samples: int, outputs: int, task: Task) -> Array:
    """`f` if it is what an agent may publish; otherwise an error that says what is wrong with it."""
    f = np.asarray(f)
    wanted = "classes" if task == "classification" else "outputs"
    if f.ndim != 2 or len(f) != samples:
        raise ConsilienceError(
            f"agent {name!r}: predictions have shape {f.shape}, but the shared data have {samples} samples. "
            "Predict every shared sample once, in order."
        )
    if f.shape[1] != outputs:
        raise ConsilienceError(
            f"agent {name!r}: predictions have {f.shape[1]} columns, the others have {outputs} {wanted}. "
            f"All agents must predict the same {wanted}."
        )
    bad = ~np.isfinite(f).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        raise ConsilienceError(
            f"agent {name!r}: {bad.sum()} of {samples} rows are not finite (first: row {row}). "
            "Did its training diverge, or do its inputs hold missing values?"
        )
    if task == "classification":
        total = f.sum(axis=1, dtype=np.float64)
        bad = (np.abs(total - 1) > 1e-3) | (f.min(axis=1) < -1e-6)
        if bad.any():
            row = int(bad.argmax())
            raise ConsilienceError(
                f"agent {name!r}: {bad.sum()} of {samples} rows are not probabilities "
                f"(first: row {row}, smallest {f[row].min():.3g}, sum {total[row]:.3g}). "
                "Did it send logits? Apply softmax."
            )
    return f.astype(np.float32, copy=False)
