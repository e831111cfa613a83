"""Attacks on what agents released, and how well they distinguish members from others."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom, norm, rankdata

from consilience.base.rows import Rows
from consilience.core.streams import stream
from consilience.tasks.protocol import Array

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


@dataclass(frozen=True)
class Measured:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


def auc(members: Array, others: Array) -> Measured:
    """P(score of a member > score of another) + half that of a tie, with DeLong's interval (DeLong et al., 1988)."""
    m, n = len(members), len(others)
    together = rankdata(np.r_[members, others])
    among_members = (together[:m] - rankdata(members)) / n
    """Of each member: the share of others below it."""
    among_others = 1 - (together[m:] - rankdata(others)) / m
    value = float(among_members.mean())
    variance = among_members.var(ddof=1) / m + among_others.var(ddof=1) / n
    half = float(norm.ppf(0.975) * np.sqrt(variance))
    return Measured(value, max(0.0, value - half), min(1.0, value + half))


def true_positives(members: Array, others: Array, false: float) -> Measured:
    """The share of members above the score that at most the share `false` of the others exceeds.

    The interval is that of Clopper and Pearson for the members, given the threshold.
    """
    allowed = int(np.floor(false * len(others)))
    threshold = np.sort(others)[::-1][allowed]
    above, count = int((members > threshold).sum()), len(members)
    low = float(beta.ppf(0.025, above, count - above + 1)) if above else 0.0
    high = float(beta.ppf(0.975, above + 1, count - above)) if above < count else 1.0
    return Measured(above / count, low, high)


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The chance to get `right` of the guesses right, at most, if the mechanism is (epsilon, delta)-private.

    P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i, with B binomial(r, e^eps / (1 + e^eps)): each of m canaries was
    in or out by a fair coin, r were guessed, v of them right (Steinke, Nasr and Jagielski, 2023, Theorem 5.2).
    """
    chance = 1 / (1 + exp(-epsilon))
    at_least = float(binom.sf(right - 1, guesses, chance))
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, chance))
    worst = float((below / np.arange(1, right + 1)).max()) if right else 0.0
    return min(1.0, at_least + 2 * canaries * delta * worst)


def canary_bound(scores: Array, inside: NDArray[np.bool_], delta: float, confidence: float = 0.95) -> float:
    """A lower bound on epsilon that holds with this confidence, from one run with canaries.

    The canaries with the highest scores are guessed to have been in, those with the lowest out, and the rest are
    not guessed. Several shares are tried (an eighth, a quarter, half, all), and the confidence is corrected for it.
    """
    order, best = np.argsort(-scores, kind="stable"), 0.0
    shares = (8, 4, 2, 1)
    allowed = (1 - confidence) / len(shares)
    for share in shares:
        each = len(scores) // (2 * share)
        if not each:
            continue
        right = int(inside[order[:each]].sum() + (~inside[order[-each:]]).sum())
        low, high = 0.0, 50.0
        if p_value(len(scores), 2 * each, right, 0.0, delta) > allowed:
            continue
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (
                (middle, high) if p_value(len(scores), 2 * each, right, middle, delta) <= allowed else (low, middle)
            )
        best = max(best, low)
    return best
