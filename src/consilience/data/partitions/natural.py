"""As it came: hospitals, writers."""

from consilience.base.errors import ConsilienceError
from consilience.data.partition import Indices, natural
from consilience.data.partitions import Deal, partition


@partition("natural")
def as_it_came(deal: Deal) -> list[Indices]:
    """One part for each place that samples come from, in the order of their numbers."""
    if deal.groups is None:
        raise ConsilienceError("this dataset does not say where its samples come from. Use another partition.")
    return natural(deal.groups, deal.agents)
