"""Random draws of a private agent: noise and samples."""

import os
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from consilience.core.streams import stream


class Draws(Protocol):
    """Random numbers of one round."""

    def normal(self, count: int) -> NDArray[np.float32]:
        """`count` independent numbers from N(0, 1)."""

    def chosen(self, rows: int, rate: float) -> NDArray[np.int64]:
        """A Poisson sample: each of `rows` is drawn independently with the chance `rate`."""


@final
class Repeatable:
    """Draws from a secret, agent and round alone: with these one can repeat every draw, and subtract the noise."""

    def __init__(self, secret: int, agent: str, number: int, attempt: int) -> None:
        self._noise = stream(secret, "noise", agent, number, attempt)
        self._sample = stream(secret, "sample", agent, number, attempt)

    def normal(self, count: int) -> NDArray[np.float32]:
        """In single precision."""
        return self._noise.standard_normal(count, dtype=np.float32)

    def chosen(self, rows: int, rate: float) -> NDArray[np.int64]:
        """A uniform number decides for every row."""
        return np.flatnonzero(self._sample.random(rows) < rate)


@final
class Secure:
    """Draws from the operating system's generator, which cannot be repeated.

    A normal number is half the sum of four, which hides the gaps between floating-point numbers (Holohan and Braghin,
    2021, section 5.1; opacus' secure mode does the same).
    """

    def normal(self, count: int) -> NDArray[np.float32]:
        """By the inverse of the distribution function, in double precision until the end."""
        from scipy.special import ndtri

        four = ndtri(_uniform(4 * count)).reshape(4, count)
        halved: NDArray[np.float32] = (four.sum(axis=0) / 2).astype(np.float32)
        return halved

    def chosen(self, rows: int, rate: float) -> NDArray[np.int64]:
        """A uniform number decides for every row."""
        return np.flatnonzero(_uniform(rows) < rate)


def _uniform(count: int) -> NDArray[np.float64]:
    """Numbers strictly between 0 and 1, 53 bits each."""
    bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) / 2.0**53
