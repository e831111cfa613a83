"""As it came: hospitals, writers."""

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.data.partition import Indices
from consilience.data.partitions import Deal, partition


@partition("natural")
def as_it_came(deal: Deal) -> list[Indices]:
    """The samples of each group, such as a hospital, in the order of the groups' numbers."""
    if deal.groups is None:
        raise ConsilienceError("this dataset does not say where its samples come from. Use another partition.")
    return [np.flatnonzero(deal.groups == group) for group in range(deal.agents)]
