"""Training of several agents of a process."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, Losses


def train_all(agents: Sequence[Agent], shared: Any, labels: Mapping[str, Any], lam: Any) -> dict[str, Losses]:
    return LocalAgents(agents).train(shared, labels, lam)


def train_all_alone(agents: Sequence[Agent], corrections: Mapping[str, Any]) -> dict[str, Losses]:
    return LocalAgents(agents).train_alone(corrections)


def train_all_on_shared(
    agents: Sequence[Agent],
    shared: Any,
    labels: Mapping[str, Any],
    passes: int,
    tell: Callable[[str], None] = lambda name: None,
) -> dict[str, Losses]:
    return LocalAgents(agents, on_trained=tell).train_on_shared(shared, labels, passes)


def train_all_on_own(agents: Sequence[Agent], labels: Mapping[str, Any], lam: float) -> dict[str, Losses]:
    return LocalAgents(agents).train_on_own(labels, lam)
