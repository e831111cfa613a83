"""Agents differ in their classes (Hsu, Qi and Brown, 2019; as in the paper)."""

from consilience.data.partition import Indices, dirichlet
from consilience.data.partitions import Deal, partition


@partition("dirichlet", by_class=True)
def by_label(deal: Deal) -> list[Indices]:
    """Each class falls among the agents by Dirichlet(alpha) proportions."""
    return dirichlet(deal.y, deal.agents, deal.alpha, deal.draw, deal.smallest)
