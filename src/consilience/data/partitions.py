"""How a dataset falls among agents. A partition is a function (Deal) -> lists of sample numbers, one for each agent.

The partitioners of flwr-datasets are not used, though its Dirichlet split knows the same limit (`self_balancing`):
they take Hugging Face datasets, not arrays, and need (version 0.6.1) seaborn and older `datasets` and `rich`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.registry import Registry

Indices = NDArray[np.int64]
PARTITIONS = Registry("partition", "consilience.data.partitions", "consilience.partitions")


@dataclass(frozen=True)
class Deal:
    """What is to be dealt, and how."""

    x: NDArray[Any]
    """Inputs; empty for a partition that does not go by them."""
    y: NDArray[Any]
    agents: int
    draw: np.random.Generator
    alpha: float = 1.0
    """Of Dirichlet proportions: small, very different agents."""
    shards: int = 2
    """For each agent, where the data are dealt in shards."""
    smallest: int = 1
    """The fewest samples that an agent may have."""
    groups: NDArray[Any] | None = None
    """Where each sample comes from, if that is known: numbers from 0 to the number of agents."""


Partition = Callable[[Deal], list[Indices]]


def partition(name: str, by_class: bool = False, by_input: bool = False) -> Callable[[Partition], Partition]:
    """Registers a function (Deal) -> sample numbers of each agent, and says whether it needs classes or inputs."""

    def register(deal: Partition) -> Partition:
        deal.by_class, deal.by_input = by_class, by_input  # type: ignore[attr-defined]
        return PARTITIONS.add(name)(deal)

    return register


@partition("dirichlet", by_class=True)
def by_label(deal: Deal) -> list[Indices]:
    """Each class falls among the agents by Dirichlet(alpha) proportions (Hsu, Qi and Brown, 2019; as in the paper)."""
    return dirichlet(deal.y, deal.agents, deal.alpha, deal.draw, deal.smallest)


MOST_ROWS = 2000
"""Rows from which the direction is found."""


@partition("feature", by_input=True)
def by_feature(deal: Deal) -> list[Indices]:
    """Agents see different regions of the inputs, whatever the labels: other devices, other people, other weather.

    Along the direction in which inputs differ most, samples are cut into as many bins as agents.

    Each bin falls among the agents by Dirichlet(alpha) proportions, as classes do in `dirichlet`.
    """
    rank = np.argsort(np.argsort(along_main_direction(deal.x), kind="stable"), kind="stable")
    bins = rank * deal.agents // len(rank)
    return dirichlet(bins, deal.agents, deal.alpha, deal.draw, deal.smallest)


def along_main_direction(x: NDArray[np.floating]) -> NDArray[np.float64]:
    """(x - mean) v, with v the first principal direction of evenly spaced rows; (samples,).

    The sign of v is such that its largest entry is positive.
    """
    flat = np.asarray(x, dtype=np.float64).reshape(len(x), -1)
    rows = flat[np.unique(np.linspace(0, len(flat) - 1, min(len(flat), MOST_ROWS)).astype(int))]
    centred = rows - rows.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    direction *= np.sign(direction[np.abs(direction).argmax()])
    return np.asarray((flat - rows.mean(axis=0)) @ direction)


@partition("iid")
def equal_parts(deal: Deal) -> list[Indices]:
    """Shuffled and cut into equal parts."""
    return [np.sort(indices) for indices in np.array_split(deal.draw.permutation(len(deal.y)), deal.agents)]


@partition("natural")
def as_it_came(deal: Deal) -> list[Indices]:
    """The samples of each group, such as a hospital, in the order of the groups' numbers."""
    if deal.groups is None:
        raise ConsilienceError("this dataset does not say where its samples come from. Use another partition.")
    return [np.flatnonzero(deal.groups == group) for group in range(deal.agents)]


@partition("quantity")
def by_quantity(deal: Deal) -> list[Indices]:
    """Shuffled and cut into parts whose sizes are Dirichlet(alpha) proportions, drawn until all are large enough.

    Agents differ in how much they have, not in what (Li et al., Federated learning on non-IID data silos, 2022).
    """
    for _ in range(1000):
        share = deal.draw.dirichlet(np.full(deal.agents, deal.alpha))
        cuts = np.round(np.cumsum(share)[:-1] * len(deal.y)).astype(int)
        parts = np.split(deal.draw.permutation(len(deal.y)), cuts)
        if min(map(len, parts)) >= deal.smallest:
            return [np.sort(indices) for indices in parts]
    raise ConsilienceError(
        f"no Dirichlet({deal.alpha:g}) sizes of {len(deal.y)} samples gave each of {deal.agents} agents at least "
        f"{deal.smallest}. Raise alpha, or use fewer agents."
    )


@partition("shards", by_class=True)
def by_shards(deal: Deal) -> list[Indices]:
    """Sorted by class and cut into agents x `shards` equal shards; every agent gets `shards` of them at random.

    Agents have few classes each (McMahan et al., Communication-efficient learning, 2017).
    """
    count = deal.agents * deal.shards
    if count > len(deal.y):
        raise ConsilienceError(f"{len(deal.y)} samples cannot be cut into {count} shards. Use fewer shards or agents.")
    order = deal.draw.permutation(len(deal.y))
    pieces = np.array_split(order[np.argsort(deal.y[order], kind="stable")], count)
    hands = deal.draw.permutation(count).reshape(deal.agents, deal.shards)
    return [np.sort(np.concatenate([pieces[number] for number in hand])) for hand in hands]


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
