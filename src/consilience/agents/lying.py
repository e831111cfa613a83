"""An agent that lies to its peers: it trains as the agent it wraps does, and publishes something else."""

from collections.abc import Callable
from typing import Any, final

import numpy as np

from consilience.agents.protocol import Agent, HasTrainingSettings, Losses, implements, published
from consilience.agents.wrapper import Wrapper
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows
from consilience.core.attacks import Attack, AttackContext, attack_name, attack_named
from consilience.tasks.protocol import Array

_SAVED = "lying/"


@final
class Lying(Wrapper):
    """`agent`, which publishes what `attack` makes of its own predictions, the only ones that it knows.

    What the honest believe is for the attack what this agent predicts. For attacks that need the predictions of others
    and for liars that see them, there is a simulation: the settings `attack` and `attackers`. Liars that shall agree
    have the same `seed`, and each a `place` of its own.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> from consilience import SklearnAgent
    >>> x = np.array([[0.0], [1.0], [2.0]])
    >>> agent = SklearnAgent(GaussianNB(), x, np.array([0, 1, 2]), "a")
    >>> agent.train(x, None, 0.0).disagreement
    nan
    >>> agent.predict(x).argmax(axis=1).tolist(), Lying(agent, "flip").publish(x).argmax(axis=1).tolist()
    ([0, 1, 2], [1, 2, 0])
    """

    def __init__(self, agent: Agent, attack: Attack | str, seed: int = 0, place: int = 0) -> None:
        super().__init__(agent)
        self._attack: Attack = attack_named(attack) if isinstance(attack, str) else attack
        self._seed, self._place = seed, place
        self._exchanges = 0
        self._memory: dict[str, Array] = {}
        if getattr(self._attack, "sees_others", False):
            raise ConsilienceError(
                f"the attack {attack_name(self._attack)} needs the predictions of others, and an agent knows its own. "
                "Simulate it with the settings attack and attackers."
            )
        if not agent.task.sums_to_one:
            raise ConsilienceError(f"attacks lie about classes, and {agent.task.name} has none.")

    def publish(self, shared: Array) -> Array:
        """What the attack says."""
        own = np.asarray(published(self.agent, shared))
        if not self._exchanges:  # what was said in the warm-up nobody heard
            self._memory = {}
        return self._attack(own[None], own, AttackContext(self._exchanges, self._place, self._seed, None, self._memory))

    def train(self, shared: Array, labels: Array | None, lam: float) -> Losses:
        """As the agent trains. Pseudo-labels say that an exchange has been."""
        self._exchanges += labels is not None and lam > 0
        losses: Losses = self.agent.train(shared, labels, lam)
        return losses

    @property
    def train_on_shared(self) -> Callable[[Rows, Array, int], Losses]:
        """As the agent digests, if it does. That too says that an exchange has been."""
        within: Callable[[Rows, Array, int], Losses] = self.agent.train_on_shared

        def train_on_shared(shared: Rows, labels: Array, passes: int) -> Losses:
            self._exchanges += 1
            return within(shared, labels, passes)

        return train_on_shared

    def training_settings(self) -> dict[str, str]:
        """The agent's, and its lies."""
        within = self.agent.training_settings() if implements(self.agent, HasTrainingSettings) else {}
        own = {"the attack": attack_name(self._attack), "the seed of the lies": str(self._seed)}
        return within | own | {"the place among the liars": str(self._place)}

    def state(self) -> dict[str, Array]:
        """The agent's, and what the lies depend on."""
        kept = {f"{_SAVED}memory/{key}": value for key, value in self._memory.items()}
        state: dict[str, Array] = self.agent.state()
        return state | kept | {f"{_SAVED}exchanges": np.array(self._exchanges)}

    def restore(self, state: dict[str, Array], shared: Array) -> None:
        """Takes up what `state` gave."""
        memory = f"{_SAVED}memory/"
        self._exchanges = int(state[f"{_SAVED}exchanges"])
        self._memory = {key.removeprefix(memory): value for key, value in state.items() if key.startswith(memory)}
        rest: dict[str, Any] = {key: value for key, value in state.items() if not key.startswith(_SAVED)}
        self.agent.restore(rest, shared)
