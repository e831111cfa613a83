"""Attacks on what agents released: a student of their predictions, calibrated by students of their peers."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consilience.base.rows import Rows
from consilience.core.streams import stream

Array = NDArray[Any]
FLOOR = 1e-6


def student(shared: Rows, released: Array, seed: int, agent: str, view: Callable[[Rows], Any] = np.asarray) -> Any:
    """A network trained on what an agent released, as a function from samples to logits (samples, classes).

    It sees samples through `view`.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    number = int(stream(seed, "student", agent).integers(2**31))
    network = MLPRegressor(
        hidden_layer_sizes=(128,), alpha=1e-4, learning_rate_init=3e-3, max_iter=300, random_state=number
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("error", "Training interrupted by user")  # it would go on with half a student
        try:
            network.fit(_flat(view(shared)), _logits(released))
        except UserWarning:
            raise KeyboardInterrupt from None
    return lambda x: network.predict(_flat(view(x)))


def log_likelihood(logits: Array, y: Array) -> Array:
    """log p(y | x) of each row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted[np.arange(len(y)), y] - np.log(np.exp(shifted).sum(axis=1)))


def margin(f: Array, y: Array) -> Array:
    """log p_y - log(1 - p_y) of predictions: how sure a model is of a row's label (Carlini et al., 2022)."""
    p = np.clip(f[np.arange(len(y)), y].astype(np.float64), FLOOR, 1 - FLOOR)
    return np.asarray(np.log(p) - np.log1p(-p))


def guessed_classes(released: dict[str, Array], agent: str) -> Array:
    """A guess of the class distribution of an agent's private data from all released predictions, (classes,).

    The mean prediction of the agent on the shared data, corrected by that of its peers: a class that it predicts more
    often than they do is more frequent in its data.
    """
    own = released[agent].mean(axis=0)
    peers = np.mean([f.mean(axis=0) for name, f in released.items() if name != agent], axis=0)
    guess = own * own / np.maximum(peers, FLOOR)
    return np.asarray(guess / guess.sum())


def _logits(f: Array) -> Array:
    logs = np.log(np.clip(f, 1e-4, 1))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def _flat(x: Array) -> Array:
    return np.asarray(x, dtype=np.float64).reshape(len(x), -1)
