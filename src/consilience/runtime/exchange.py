"""The exchanges of a simulation: all agents live in this process, and some of them may be attackers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast, final

import numpy as np

from consilience.agents.protocol import Weights
from consilience.core.attacks import Attack, AttackContext, per_victim
from consilience.core.wire import Wire
from consilience.methods.protocol import Exchange, Received, SparseExchange
from consilience.runtime.checkpoint import flat
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


@final
class LyingExchange:
    """The exchange `within`, with false predictions in place of those of `attackers`.

    Attackers hear each other's true predictions, so that they learn as if all were honest. Every process that knows all
    predictions makes the same false predictions: they depend on these, the seed and the round alone.
    """

    def __init__(self, within: Exchange, attackers: Sequence[str], attack: Attack, seed: int, wire: Wire) -> None:
        self.roster, self.samples = within.roster, getattr(within, "samples", {})
        self._within, self._attack, self._seed, self._wire = within, attack, seed, wire
        self._attackers = tuple(name for name in self.roster if name in attackers)
        self._memory: dict[str, dict[str, Array]] = {name: {} for name in self._attackers}
        self._began: int | None = None

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """The predictions of all, with false ones for all and for single victims."""
        return self._with_attacks(number, self._within.gather(number, own_predictions))

    def gather_some(self, number: int, own_predictions: dict[str, Array], wanted: dict[str, Array]) -> Received:
        """The same in sparse exchange."""
        return self._with_attacks(
            number, cast(SparseExchange, self._within).gather_some(number, own_predictions, wanted)
        )

    def _with_attacks(self, number: int, answer: Received) -> Received:
        self._began = number if self._began is None else self._began
        truth = answer.predictions
        attackers = {name: truth[name] for name in self._attackers if name in truth}
        honest = [name for name in self.roster if name in truth and name not in attackers]
        if not attackers or not honest:
            return answer
        f = np.stack([truth[name] for name in honest])
        false = {name: self._false_prediction(f, name, number, own) for name, own in attackers.items()}
        told = dict.fromkeys(attackers, attackers)
        if per_victim(self._attack):
            for index, victim in enumerate(honest):
                told[victim] = {
                    name: self._false_prediction(f, name, number, own, index) for name, own in attackers.items()
                }
        return replace(answer, predictions=truth | false, told=told)

    def _false_prediction(self, honest: Array, name: str, number: int, own: Array, victim: int | None = None) -> Array:
        """What the attacker says to all, or to one victim, in the form in which predictions are published."""
        index, began = self._attackers.index(name), number if self._began is None else self._began
        context = AttackContext(number - began, index, self._seed, victim, self._memory[name])
        return self._wire.rounded(self._attack(honest, own, context))

    def state(self) -> dict[str, Array]:
        """The round of the first exchange, and the attackers' memory."""
        memory = flat(self._memory)
        return memory if self._began is None else memory | {"began": np.array(self._began)}

    def restore(self, state: dict[str, Array]) -> None:
        """Restores what `state` returned."""
        if "began" in state:
            self._began = int(state["began"])
        for path, value in state.items():
            name, slash, key = path.partition("/")
            if slash:
                self._memory[name][key] = value
