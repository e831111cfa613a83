"""Agents differ in how much they have, not in what (Li et al., Federated learning on non-IID data silos, 2022)."""

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.data.partition import Indices
from consilience.data.partitions import Deal, partition


@partition("quantity")
def by_quantity(deal: Deal) -> list[Indices]:
    """Shuffled and cut into parts whose sizes are Dirichlet(alpha) proportions, drawn until all are large enough."""
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
