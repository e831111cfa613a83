"""Partitions under their names: how a dataset falls among agents. A file registers its own.

A partition is a function (Deal) -> lists of sample numbers, one for each agent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.registry import Registry
from consilience.data.partition import Indices

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
