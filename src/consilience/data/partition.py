"""How a dataset falls among agents: lists of sample numbers, one list per agent.

The partitioners of flwr-datasets are not used, though its Dirichlet split knows the same limit (`self_balancing`):
they take Hugging Face datasets, not arrays, and need (version 0.6.1) seaborn and older `datasets` and `rich`.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError

Indices = NDArray[np.int64]


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
            for agent, indices in enumerate(np.split(members, cuts)):
                parts[agent].append(indices)
                held[agent] += len(indices)
        if held.min() >= smallest:
            return [np.sort(np.concatenate(indices)) for indices in parts]
    raise ConsilienceError(
        f"no Dirichlet({alpha:g}) split of {len(y)} samples gave each of {agents} agents at least {smallest}. "
        "Raise alpha, or use fewer agents."
    )


def first_of_each(labels: NDArray[Any], limit: int) -> Indices:
    """The first `limit` samples of each class, or of each combination of the rows of `labels` (rows, samples).

    >>> first_of_each(np.array([0, 0, 1, 0, 1]), 2)
    array([0, 1, 2, 4])
    """
    return np.flatnonzero(rank_in_class(labels) < limit)


def rank_in_class(labels: NDArray[Any]) -> Indices:
    """How many samples of its own class come before each sample.

    >>> rank_in_class(np.array([7, 7, 5, 7, 5]))
    array([0, 1, 0, 2, 1])
    """
    kinds, kind = np.unique(np.atleast_2d(labels), axis=1, return_inverse=True)
    rank = np.empty(kind.size, dtype=np.int64)
    for number in range(kinds.shape[1]):
        members = np.flatnonzero(kind.ravel() == number)
        rank[members] = np.arange(len(members))
    return rank


def balanced_quotas(counts: NDArray[Any], each: int) -> Indices:
    """How many samples of each class each agent gives, (agents, classes), so that the classes are as even as can be.

    Every agent gives `each` samples and no more of a class than its `counts` (agents, classes). Starts from each
    agent's own proportions; as long as one class has at least two samples more than another, and a chain of agents
    can pass one sample from the first to the second, they do. No other choice has a smaller sum of squared totals.
    """
    quotas = np.array([_proportional(row, each) for row in counts])
    while True:
        totals, room = quotas.sum(axis=0), counts - quotas
        passes = (quotas > 0).T.astype(int) @ (room > 0) > 0  # (from class, to class): some agent can exchange them
        for start in np.argsort(-totals, kind="stable"):
            chain = _chain(passes, totals, int(start))
            if chain:
                break
        else:
            return quotas
        for given, taken in pairwise(chain):
            agent = np.where(quotas[:, given] > 0, room[:, taken], 0).argmax()
            quotas[agent, given] -= 1
            quotas[agent, taken] += 1


def _proportional(counts: NDArray[Any], each: int) -> Indices:
    """`each` samples in proportion to `counts`, largest remainders rounded up."""
    exact = each * counts / counts.sum()
    quota: Indices = np.floor(exact).astype(np.int64)
    quota[np.argsort(quota - exact, kind="stable")[: each - quota.sum()]] += 1
    return quota


def _chain(passes: NDArray[Any], totals: NDArray[Any], start: int) -> list[int]:
    """The shortest chain of classes from `start` to one with two samples fewer; empty if no such chain exists."""
    before = {start: start}
    queue = [start]
    for given in queue:
        next_classes = [taken for taken in np.flatnonzero(passes[given]).tolist() if taken not in before]
        before |= dict.fromkeys(next_classes, given)
        queue += next_classes
        end = min(next_classes, key=lambda taken: totals[taken], default=start)
        if totals[end] <= totals[start] - 2:
            chain = [end]
            while chain[0] != start:
                chain.insert(0, before[chain[0]])
            return chain
    return []
