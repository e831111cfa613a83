"""One entry of a ledger."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LedgerEntry(NamedTuple):
    """A round of private training: `steps` times, a sample of the rows at `rate` was used with noise `noise`."""

    round: int
    rate: float
    """Chance of each private row to be in the sample of a step."""
    noise: float
    """Standard deviation of the noise divided by the longest gradient of a row."""
    steps: int

    @property
    def problem(self) -> str:
        """Why the entry is invalid; empty if it is valid."""
        if not (isfinite(self.rate) and 0 < self.rate <= 1):
            return f"the rate {self.rate} is not between 0 and 1"
        if not (isfinite(self.noise) and self.noise > 0):
            return f"the noise {self.noise} is not above 0"
        return "" if self.round >= 0 and self.steps >= 0 else "a negative number of rounds or steps"


Used = tuple[tuple[float, float, int], ...]
"""(noise, rate, steps), each pair of noise and rate once, as accountants need it."""


def used(entries: Iterable[LedgerEntry]) -> Used:
    """The sum of entries, in a fixed order.

    >>> used([LedgerEntry(1, 0.5, 2.0, 10), LedgerEntry(2, 0.5, 2.0, 10)])
    ((2.0, 0.5, 20),)
    """
    steps: dict[tuple[float, float], int] = {}
    for entry in entries:
        if entry.steps:
            steps[entry.noise, entry.rate] = steps.get((entry.noise, entry.rate), 0) + entry.steps
    return tuple((noise, rate, count) for (noise, rate), count in sorted(steps.items()))


def to_array(entries: Sequence[LedgerEntry]) -> NDArray[np.float64]:
    """(entries, 4)."""
    return np.array([tuple(entry) for entry in entries], dtype=np.float64).reshape(-1, 4)


def from_array(array: NDArray[np.float64]) -> list[LedgerEntry]:
    """The inverse of `to_array`."""
    whole = np.nan_to_num(array, nan=-1, posinf=-1, neginf=-1)[:, [0, 3]].astype(np.int64).tolist()
    return [
        LedgerEntry(number, rate, noise, steps)
        for (number, steps), (_, rate, noise, _) in zip(whole, array.tolist(), strict=True)
    ]
