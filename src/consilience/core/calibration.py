"""Calibrated probabilities, the pool of two models, and prediction sets: all fitted to rows that no model has seen.

A pool of k terms z (samples, classes), such as log f of a model, is p ~ exp(sum_k w_k z_k). A single term with the
weight 1/T is temperature scaling (Guo et al., 2017). Fitting is convex, and a prior keeps the weights where a few rows
say little.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from consilience.core.duals import softmax

Array = NDArray[np.floating]
Labels = NDArray[np.integer]
LEAST = 1e-3
"""Probabilities are not taken to be smaller."""
STEPS = 50
BINS = 10


def log_term(f: Array, least: float = LEAST) -> Array:
    """log f, with f at least `least`, in double precision."""
    return np.log(np.maximum(np.asarray(f, dtype=np.float64), least))


def frequency_term(counts: Sequence[int] | NDArray[np.integer]) -> Array:
    """log (n_c + 1) / (n + C): the class frequencies at home, (classes,).

    >>> np.exp(frequency_term([3, 0])).round(2).tolist()
    [0.8, 0.2]
    """
    smooth = np.asarray(counts, dtype=np.float64) + 1
    return np.asarray(np.log(smooth / smooth.sum()))


def pool(weights: Array, terms: Array) -> Array:
    """p_xc ~ exp(sum_k w_k z_kxc) for terms (k, samples, classes): probabilities (samples, classes)."""
    return softmax(np.einsum("k,kxc->xc", weights, terms))


def pool_weights(terms: Array, y: Labels, prior: Array, strength: Array) -> Array:
    """argmin_w - sum_x log p_x,y(x) + sum_k s_k / 2 (w_k - prior_k)^2, by Newton steps that are halved as needed.

    Without samples it is the prior.

    Args:
        terms: (k, samples, classes)
        y: The class of each sample.
        prior: (k,)
        strength: (k,), all above 0.
    """
    from scipy.special import log_softmax

    w, rows = np.array(prior, dtype=np.float64), np.arange(len(y))

    def objective(w: Array) -> float:
        log = log_softmax(np.einsum("k,kxc->xc", w, terms), axis=1)
        return float(-log[rows, y].sum() + 0.5 * (strength * (w - prior) ** 2).sum())

    for _ in range(STEPS):
        p = pool(w, terms)
        mean = np.einsum("xc,kxc->kx", p, terms)
        centred = terms - mean[:, :, None]
        gradient = (mean - terms[:, rows, y]).sum(axis=1) + strength * (w - prior)
        hessian = np.einsum("xc,kxc,lxc->kl", p, centred, centred) + np.diag(strength)
        step, now = np.linalg.solve(hessian, gradient), objective(w)
        while objective(w - step) > now + 1e-12 and np.abs(step).max() > 1e-9:
            step = step / 2
        w = w - step
        if np.abs(step).max() < 1e-8:
            break
    return w


def mixture_weight(first: Array, second: Array, y: Array, prior: float, strength: float) -> float:
    """argmin_a sum_x |y - (1 - a) first - a second|^2 + s v (a - prior)^2 in [0, 1], v the mean |second - first|^2."""
    difference = (np.asarray(second, dtype=np.float64) - first).reshape(len(y), -1)
    if not len(y) or not difference.any():
        return prior
    rest = (np.asarray(y, dtype=np.float64).reshape(difference.shape)) - np.asarray(first).reshape(difference.shape)
    square = np.square(difference).sum()
    pull = strength * square / len(y)
    return float(np.clip(((difference * rest).sum() + pull * prior) / (square + pull), 0, 1))


def class_scores(f: Array, y: Labels) -> Array:
    """1 - f_y: how little the label conforms to the prediction (samples,)."""
    return np.asarray(1 - f[np.arange(len(y)), y], dtype=np.float64)


def conformal_threshold(scores: Array, coverage: float) -> float:
    """The ceil((n + 1) coverage)-th smallest of n scores, infinity if there are too few (split conformal prediction).

    Another sample, exchangeable with these, has a score up to it with at least that probability (Vovk et al., 2005).

    >>> conformal_threshold(np.arange(1.0, 20.0), 0.9), conformal_threshold(np.ones(5), 0.9)
    (18.0, inf)
    """
    rank = int(np.ceil((len(scores) + 1) * coverage - 1e-9))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else float("inf")


def prediction_sets(f: Array, threshold: float) -> NDArray[np.bool_]:
    """Classes with 1 - f_c up to the threshold (samples, classes); none where every class conforms too little."""
    return np.asarray(1 - np.asarray(f, dtype=np.float64) <= threshold)


def reliability(sure: Array, right: NDArray[np.bool_], bins: int = BINS) -> Array:
    """A row (samples, mean confidence, share right) for each of `bins` even intervals of confidence; NaN where empty.

    >>> reliability(np.array([0.9, 0.95, 0.2]), np.array([True, False, False]), 2).round(3).tolist()
    [[1.0, 0.2, 0.0], [2.0, 0.925, 0.5]]
    """
    index = np.clip(np.ceil(np.asarray(sure, dtype=np.float64) * bins).astype(int) - 1, 0, bins - 1)
    samples = np.bincount(index, minlength=bins).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(index, values, minlength=bins) / samples for values in (sure, right)]
    return np.stack([samples, *means], axis=1)
