"""Rows that are crossed in the space of an agent's features, which only the agent can compute."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class CrossedRows:
    """Rows, of which some are still to be made from the features of two others.

    Args:
        rows: The rows whose features are computed.
        a: For each row its number in `rows`, or that of the first of two.
        b: The number of the second; the same as `a` for a row that is not crossed.
        key: The number of each crossed row among all that are made with this seed, which decides its coins.
        seed: The seed of the coins.
    """

    rows: Any
    a: Array
    b: Array
    key: Array
    seed: int

    def __len__(self) -> int:
        return len(self.a)

    def take(self, index: Array) -> "CrossedRows":
        """Some of them; what they are made from stays the same."""
        return CrossedRows(self.rows, self.a[index], self.b[index], self.key[index], self.seed)

    def mixed(self, features: Array, from_b: Array) -> Array:
        """The features of all rows, (rows, features), from those of `rows` and the coins of all keys."""
        made = features[self.a]
        crossed = np.flatnonzero(self.a != self.b)
        made[crossed] = np.where(from_b[self.key[crossed]], features[self.b[crossed]], made[crossed])
        return made
