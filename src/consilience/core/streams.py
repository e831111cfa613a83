"""Random numbers: one named stream per purpose and agent."""

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the names alone.

    Draws from one stream do not change those of another, so that agents can train in any order or in parallel.

    >>> int(stream(0, "batches", "agent 3", 1).integers(100)) == int(stream(0, "batches", "agent 3", 1).integers(100))
    True
    >>> stream(0, "batches", "agent 3", 1).random() == stream(0, "batches", "agent 3", 2).random()
    False
    """
    label = "\x1f".join(str(name) for name in names)
    words = np.frombuffer(hashlib.sha256(label.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))
