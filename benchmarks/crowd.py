"""Data for crowds of agents, of the shapes of CIFAR-10 and of digits: a plugin (`--set plugins=benchmarks/crowd.py`).

Every class has a mean, and samples are noise around it. Only the sizes matter for how long things take.
"""

import numpy as np

from consilience.data.datasets import Dataset, Request, dataset

CLASSES = tuple("0123456789")


def crowd(samples: int, shape: tuple[int, ...], seed: int = 0) -> Dataset:
    """So many samples of ten classes."""
    draw = np.random.default_rng(seed)
    means = draw.normal(size=(len(CLASSES), *shape)).astype(np.float32)
    y = draw.integers(0, len(CLASSES), samples)
    x = draw.standard_normal((samples, *shape), dtype=np.float32)
    x *= 3
    x += means[y]
    return Dataset(x, y, CLASSES)


@dataset("crowd-images")
def crowd_images(request: Request) -> Dataset:
    """As many images of the same shape as CIFAR-10, for a thousand agents."""
    return crowd(60_000, (3, 32, 32))


@dataset("crowd-digits")
def crowd_digits(request: Request) -> Dataset:
    """Rows of 64 numbers, about 110 for each agent and 450 more."""
    return crowd(110 * request.agents + 450, (64,))
