"""Agents that repeat their pseudo-labels, and exchanges that lose some of them."""

from typing import Any

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.extend import InMemory, Losses, Received, Round, Start
from consilience.methods.protocol import Method
from consilience.tasks import task_named

SAMPLES, OUTPUTS = 12, 3
NAMES = ("a", "b", "c", "d")
SHARED = np.zeros((SAMPLES, 2), np.float32)
NOISE = {"a": 0.5, "b": 1.0, "c": 1.5, "d": 2.0}


class Parrot:
    """Says after each round exactly what its pseudo-labels were: the ideal dynamics of the theory."""

    outputs, samples, class_counts, kind, parameters = OUTPUTS, 5, [5], "parrot", None

    def __init__(self, name: str, task: str = "classification") -> None:
        self.name, self.task, self.noise = name, task_named(task), NOISE[name]
        draw = np.random.default_rng(NAMES.index(name))
        said = {
            "classification": lambda: draw.dirichlet(np.ones(OUTPUTS), SAMPLES),
            "multilabel": lambda: draw.uniform(size=(SAMPLES, OUTPUTS)),
            "regression": lambda: draw.normal(0, 2, (SAMPLES, OUTPUTS)),
        }[task]
        self.says = said().astype(np.float32)
        self.trained: list[tuple[float, bool]] = []
        """Lambda and whether there were pseudo-labels, round by round."""
        self.predicted = self.rounds = 0

    def predict(self, x: np.ndarray) -> np.ndarray:
        assert x is SHARED
        self.predicted += 1
        return self.says

    def train(self, shared: np.ndarray, labels: np.ndarray | None, lam: float) -> Losses:
        assert shared is SHARED
        self.trained.append((lam, labels is not None))
        self.rounds += 1
        if labels is not None:
            self.says = np.array(labels)
        return Losses(self.rounds + NAMES.index(self.name) / 10, lam)

    def state(self) -> dict[str, np.ndarray]:
        return {"says": self.says, "rounds": np.array(self.rounds)}

    def restore(self, state: dict[str, np.ndarray], shared: np.ndarray) -> None:
        self.says, self.rounds = state["says"], int(state["rounds"])


def parrots(task: str = "classification") -> list[Parrot]:
    return [Parrot(name, task) for name in NAMES]


def first_words(task: str = "classification") -> np.ndarray:
    """What all parrots say before the first round (agents, samples, outputs)."""
    return np.stack([agent.says for agent in parrots(task)])


class Lossy:
    """An exchange in which the named agents are not heard in the named rounds; it hands over in reverse order."""

    def __init__(self, missing: dict[int, set[str]]) -> None:
        self.roster, self._missing = NAMES, missing

    def gather(self, number: int, own_predictions: dict[str, np.ndarray]) -> Received:
        gone = self._missing.get(number, set())
        heard = {name: f for name, f in reversed(own_predictions.items()) if name not in gone}
        return Received(heard, dict.fromkeys(own_predictions, 0))


class Elsewhere:
    """An exchange of a process that holds some agents; the others say what they said at first."""

    roster = NAMES

    def __init__(self, task: str = "classification") -> None:
        self._said = dict(zip(NAMES, first_words(task), strict=True))

    def gather(self, number: int, own_predictions: dict[str, np.ndarray]) -> Received:
        return Received(self._said | own_predictions, dict.fromkeys(own_predictions, 7))


def rounds_of(
    method: Method, rounds: int, exchange: Any = None, agents: Any = None, start: Start | None = None
) -> list[Round]:
    """All rounds of a method."""
    exchange = exchange or InMemory(NAMES, method.wire)
    team = LocalAgents(parrots() if agents is None else agents, exchange.roster)
    return list(method.rounds(team, SHARED, exchange, start or Start(rounds)))
