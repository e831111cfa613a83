"""Agents see different regions of the inputs, whatever the labels: other devices, other people, other weather."""

import numpy as np
from numpy.typing import NDArray

from consilience.data.partition import Indices, dirichlet
from consilience.data.partitions import Deal, partition

MOST_ROWS = 2000
"""Rows from which the direction is found."""


@partition("feature", by_input=True)
def by_feature(deal: Deal) -> list[Indices]:
    """Along the direction in which inputs differ most, samples are cut into as many bins as agents.

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
