"""Random numbers: one named stream per purpose and agent."""

import hashlib

import numpy as np


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the names alone.

    A draw from one stream moves no draw of another, so agents may train in any order or in parallel.

    >>> int(stream(0, "batches", "agent 3", 1).integers(100)) == int(stream(0, "batches", "agent 3", 1).integers(100))
    True
    >>> stream(0, "batches", "agent 3", 1).random() == stream(0, "batches", "agent 3", 2).random()
    False
    """
    label = "\x1f".join(str(name) for name in names)
    words = np.frombuffer(hashlib.sha256(label.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence([seed, *words.tolist()]))
