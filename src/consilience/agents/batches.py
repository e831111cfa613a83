"""Which samples a step of training takes."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from consilience.tasks.protocol import Array


def batches(draw: np.random.Generator, samples: int, size: int) -> list[Array]:
    """All samples once, shuffled, in nearly equal batches of at most `size` (none of them a lone sample)."""
    order, count = draw.permutation(samples), number_of_batches(samples, size)
    least, more = divmod(samples, count)
    ends = [batch * least + min(batch, more) for batch in range(count + 1)]
    return [order[start:end] for start, end in pairwise(ends)]


def number_of_batches(samples: int, size: int) -> int:
    """In one pass over the samples."""
    return -(-samples // size)


def endless_batches(draw: np.random.Generator, samples: int, size: int) -> Iterator[Array]:
    """Pass after pass over the samples, each in a new order."""
    while True:
        yield from batches(draw, samples, size)
