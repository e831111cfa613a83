"""Agents have few classes each (McMahan et al., Communication-efficient learning, 2017)."""

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.data.partition import Indices
from consilience.data.partitions import Deal, partition


@partition("shards", by_class=True)
def by_shards(deal: Deal) -> list[Indices]:
    """Sorted by class and cut into agents x `shards` equal shards; every agent gets `shards` of them at random."""
    count = deal.agents * deal.shards
    if count > len(deal.y):
        raise ConsilienceError(f"{len(deal.y)} samples cannot be cut into {count} shards. Use fewer shards or agents.")
    order = deal.draw.permutation(len(deal.y))
    pieces = np.array_split(order[np.argsort(deal.y[order], kind="stable")], count)
    hands = deal.draw.permutation(count).reshape(deal.agents, deal.shards)
    return [np.sort(np.concatenate([pieces[number] for number in hand])) for hand in hands]
