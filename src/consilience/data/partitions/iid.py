"""Everyone has the same distribution."""

from consilience.data.partition import Indices, iid
from consilience.data.partitions import Deal, partition


@partition("iid")
def equal_parts(deal: Deal) -> list[Indices]:
    """Shuffled and cut into equal parts."""
    return iid(deal.y, deal.agents, deal.draw)
