"""Crossed rows: new rows made of shared ones, each feature taken from one of two of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.core.streams import stream

Array = NDArray[Any]

LEAST_SIDE, MOST_SIDE = 0.25, 0.75
"""Sides of a rectangle that is cut out, as parts of the image's."""


def pairs(rows: int, number: int, seed: int) -> tuple[Array, Array]:
    """Two different rows, a and b, for each of `number` crossed rows: (number,) and (number,).

    a is uniform over all rows, and b over all others.

    >>> a, b = pairs(5, 1000, seed=0)
    >>> bool((a != b).all()), sorted(set(b.tolist()))
    (True, [0, 1, 2, 3, 4])
    """
    draw = stream(seed, "crossed pairs")
    a = draw.integers(0, rows, number)
    return a, (a + draw.integers(1, rows, number)) % rows


def coins(number: int, features: int, seed: int) -> Array:
    """Fair coins (number, features): whether a feature of a crossed row is that of b. More rows begin with these."""
    return stream(seed, "crossed coins", features).integers(0, 2, (number, features), dtype=np.bool_)


def crossed(x: Array, a: Array, b: Array, from_b: Array) -> Array:
    """x'_nk = x_{b_n k} where from_b_nk, else x_{a_n k}; x is (rows, features).

    >>> crossed(np.array([[1, 2, 3], [4, 5, 6]]), np.array([0]), np.array([1]), np.array([[True, False, True]]))
    array([[4, 2, 6]])
    """
    return np.asarray(np.where(from_b, x[b], x[a]))


def rectangles(number: int, height: int, width: int, seed: int) -> Array:
    """(number, height, width): true in one random rectangle, anywhere inside, of each image.

    Its sides are uniform between `LEAST_SIDE` and `MOST_SIDE` of the image's, and at least one pixel long. Images of
    another size have it at the same place.

    >>> rectangles(2, 1, 4, seed=0).sum(axis=(1, 2)).max() <= 3
    np.True_
    """
    draw, inside = stream(seed, "crossed rectangles"), []
    for size in (height, width):
        share, offset = draw.random(number), draw.random(number)
        length = np.maximum(1, np.rint((LEAST_SIDE + (MOST_SIDE - LEAST_SIDE) * share) * size)).astype(np.int64)
        start = (offset * (size - length + 1)).astype(np.int64)
        places = np.arange(size)
        inside.append((places >= start[:, None]) & (places < (start + length)[:, None]))
    rows, columns = inside
    return rows[:, :, None] & columns[:, None, :]
