"""How networks train: the table [training] of the settings, and which samples a step takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from consilience.base.options import Options, option
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class Training(Options):
    """Options of local training of torch models. Estimators of scikit-learn are refitted in every round.

    >>> Training(epochs=2, lr=0.01)
    Training(epochs=2, lr=0.01)
    """

    epochs: int = option(5, "passes over the private data per round", at_least=1)
    batch: int = option(64, "private samples per step", at_least=1)
    shared_batch: int = option(256, "shared samples per step", at_least=1)
    lr: float = option(0.005, "learning rate of Adam", above=0)
    batched: bool = option(True, "train small models of one architecture together: faster, equal up to rounding")
    augment: str = option(
        "none",
        "change images in training: none | crop-flip (shift and mirror)",
        one_of=("none", "crop-flip"),
    )
    class_balanced: bool = option(False, "correct the private loss for unequal numbers of samples per class")
    solver: str = option(
        "auto",
        "steps (Adam, in batches) | exact (for models whose last linear layer alone is trained: an epoch is one step "
        "over all private and shared samples, without a learning rate) | both (steps of all layers, then exact ones of "
        "the last) | auto (exact for one layer on a backbone)",
        one_of=("auto", "steps", "exact", "both"),
    )
    decay: float = option(2e-5, "weight decay of the solver exact, in units of the mean squared feature", at_least=0)
    kept_back: float = option(
        0.0,
        "share of the private rows of networks that is never trained on, for calibration and the home model",
        at_least=0,
        below=0.9,
    )


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
