"""The exchange of a simulation: all agents live in this process."""

from collections.abc import Mapping
from typing import final

import numpy as np

from consilience.agents.protocol import Weights
from consilience.core.wire import Wire
from consilience.methods.protocol import Received
from consilience.tasks.protocol import Array


@final
class InMemory:
    """Every agent hears every other. Bytes are counted as if each had sent its predictions to every peer.

    Args:
        roster: All agents.
        wire: The form of predictions.
        samples: Private samples that agents declare, by name.
    """

    def __init__(
        self, roster: tuple[str, ...], wire: Wire | None = None, samples: Mapping[str, int] | None = None
    ) -> None:
        self.roster, self.samples = roster, dict(samples or {})
        self._wire = wire or Wire()

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """The predictions as they are published."""
        peers = len(self.roster) - 1
        sent = {name: self._wire.size(*f.shape) * peers for name, f in own_predictions.items()}
        return Received(self._published(own_predictions), sent)

    def gather_some(self, number: int, own_predictions: dict[str, Array], wanted: dict[str, Array]) -> Received:
        """The predictions themselves. Bytes are those that each sends to the peers who want to hear it."""
        index = {name: number for number, name in enumerate(self.roster)}
        readers = np.bincount(np.concatenate([*wanted.values()]), minlength=len(index))
        for name, peers in wanted.items():
            readers[index[name]] -= index[name] in peers
        sent = {name: self._wire.size(*f.shape) * int(readers[index[name]]) for name, f in own_predictions.items()}
        return Received(self._published(own_predictions), sent)

    def _published(self, own_predictions: dict[str, Array]) -> dict[str, Array]:
        return {name: self._wire.rounded(f) for name, f in own_predictions.items()}

    def share(self, arrays: dict[str, Weights]) -> dict[str, Weights]:
        """The arrays themselves."""
        return {name: arrays[name] for name in self.roster if name in arrays}
