"""How a dataset falls among agents: lists of sample numbers, one list per agent."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.errors import ConsilienceError

Indices = NDArray[np.int64]


def iid(y: NDArray[Any], agents: int, draw: np.random.Generator) -> list[Indices]:
    """Shuffled and cut into equal parts."""
    return [np.sort(part) for part in np.array_split(draw.permutation(len(y)), agents)]


def dirichlet(
    y: NDArray[Any], agents: int, alpha: float, draw: np.random.Generator, smallest: int = 1
) -> list[Indices]:
    """Each class falls among the agents by Dirichlet(alpha) proportions; small alpha, few classes per agent.

    Agents that already hold n/N samples get no more of the next class, as in the authors' code. Drawn again until
    every agent holds at least `smallest` samples.
    """
    if smallest * agents > len(y):
        raise ConsilienceError(
            f"{len(y)} samples cannot give {agents} agents at least {smallest} each. Use fewer agents or more samples."
        )
    for _ in range(1000):
        parts: list[list[Indices]] = [[] for _ in range(agents)]
        held = np.zeros(agents)
        for label in np.unique(y):
            members = draw.permutation(np.flatnonzero(y == label))
            has_room = held < len(y) / agents
            share = draw.dirichlet(np.full(agents, alpha)) * has_room
            if share.sum() == 0:
                share = has_room.astype(float)
            cuts = (np.cumsum(share / share.sum())[:-1] * len(members)).astype(int)
            for agent, part in enumerate(np.split(members, cuts)):
                parts[agent].append(part)
                held[agent] += len(part)
        if held.min() >= smallest:
            return [np.sort(np.concatenate(part)) for part in parts]
    raise ConsilienceError(
        f"no Dirichlet({alpha:g}) split of {len(y)} samples gave each of {agents} agents at least {smallest}. "
        "Raise alpha, or use fewer agents."
    )
