"""Private rows that a network is never trained on, for calibration."""

from dataclasses import replace

import numpy as np

from consilience.base.rows import Rows, take
from consilience.core.streams import stream
from consilience.tasks.protocol import Array, Labelled, Task


def keep_back(data: Labelled, task: Task, share: float, seed: int, name: str) -> tuple[Labelled, tuple[Rows, Array]]:
    """The rows to train on, and this share of the private rows, drawn from the agent's stream.

    At least two rows are left to train on.
    """
    samples = len(data.y)
    number = min(round(share * samples), samples - 2)
    if number < 1:
        return data, (take(data.x, slice(0, 0)), data.y[:0])
    order = stream(seed, "kept back", name).permutation(samples)
    kept, rest = np.sort(order[:number]), np.sort(order[number:])
    y = data.y[rest]
    return replace(data, x=take(data.x, rest), y=y, counts=task.counts(y)), (take(data.x, kept), data.y[kept])
