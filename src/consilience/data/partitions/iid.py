"""Everyone has the same distribution."""

import numpy as np

from consilience.data.partition import Indices
from consilience.data.partitions import Deal, partition


@partition("iid")
def equal_parts(deal: Deal) -> list[Indices]:
    """Shuffled and cut into equal parts."""
    return [np.sort(indices) for indices in np.array_split(deal.draw.permutation(len(deal.y)), deal.agents)]
