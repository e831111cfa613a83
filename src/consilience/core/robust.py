"""Robust means of predictions, for agents of which some may be attackers.

`f` is (agents, samples, outputs); returned is (samples, outputs), the same for everyone. With `normalise`, rows are
scaled to sum to one again; a row of zeros is replaced by the mean.
"""

import numpy as np
from numpy.typing import NDArray

from consilience.core.trust import chunks

Array = NDArray[np.floating]

STEPS = 50
CLOSE = 1e-6
"""Weiszfeld's algorithm ends after a step shorter than this."""


def coordinate_median(f: Array, normalise: bool = True) -> Array:
    """r(x)[k] = median over agents j of f_j(x)[k], each output on its own (Yin et al., 2018).

    >>> coordinate_median(np.array([[[0.8, 0.2]], [[0.6, 0.4]], [[0.0, 1.0]]])).round(2).tolist()
    [[0.6, 0.4]]
    """
    median = np.concatenate([np.median(chunk, axis=0) for chunk in chunks(f)])
    return _normalised(median, f) if normalise else median


def trimmed_mean(f: Array, share: float, normalise: bool = True) -> Array:
    """The mean over agents without the floor(share N) smallest and largest values of each output (Yin et al., 2018).

    >>> trimmed_mean(np.array([[[0.8, 0.2]], [[0.6, 0.4]], [[0.0, 1.0]]]), 0.34).round(2).tolist()
    [[0.6, 0.4]]
    """
    cut = _share_of(share, f)
    kept = slice(cut, len(f) - cut)
    mean = np.concatenate([np.sort(chunk, axis=0)[kept].mean(axis=0) for chunk in chunks(f)])
    return _normalised(mean, f) if normalise else mean


def geometric_median(f: Array, steps: int = STEPS) -> Array:
    """r(x) = argmin_r sum_j |f_j(x) - r|_2 for each sample, by Weiszfeld's steps from the mean:

    r <- sum_j f_j / |f_j - r| / sum_j 1 / |f_j - r|, with distances kept above 1e-6. It is a mean of the f_j with
    positive weights, and so a distribution where they are (Pillutla, Kakade and Harchaoui, 2022).
    """
    return np.concatenate([_weiszfeld(chunk, steps) for chunk in chunks(f)])


def filtered_mean(f: Array, share: float) -> Array:
    """The mean over the agents that a spectral filter keeps, for each sample; floor(share N) are removed in two steps.

    In each step, with m the mean of the rest and v its direction of largest variance (the first eigenvector of the
    covariance), the agents with the largest (v . (f_j - m))^2 are removed. Cronus (Chang et al., 2019) does this with
    the filter of Diakonikolas et al. (2017); here the number of agents is fixed, as the theorem's bound on the tail
    needs the covariance of honest agents.

    >>> f = np.array([[[0.8, 0.2]], [[0.7, 0.3]], [[0.9, 0.1]], [[0.0, 1.0]]])
    >>> filtered_mean(f, 0.25).round(2).tolist()
    [[0.8, 0.2]]
    """
    out = _share_of(share, f)
    parts = [_filtered(chunk.swapaxes(0, 1).astype(np.float64), (out - out // 2, out // 2)) for chunk in chunks(f)]
    return np.concatenate(parts).astype(f.dtype)


def mean_distances(f: Array, centre: Array) -> Array:
    """d_j = 1/n* sum_x |f_j(x) - centre(x)|_2, how far each agent is from `centre` (samples, outputs); (agents,)."""
    return np.array([np.sqrt(np.square(own - centre).sum(axis=1, dtype=np.float64)).mean() for own in f])


def exponential_weights(losses: Array, step: float) -> Array:
    """p_j proportional to exp(-step L_j), where L_j is the sum of an agent's losses over rounds; (agents,).

    >>> exponential_weights(np.array([1.0, 1.0, 9.0]), 1.0).round(3).tolist()
    [0.5, 0.5, 0.0]
    """
    p = np.exp(-step * (losses - losses.min()))
    return np.asarray(p / p.sum())


def _share_of(share: float, f: Array) -> int:
    """floor(share N); a product such as 0.29 x 100, which is rounded to just below 29, counts as 29."""
    return int(share * len(f) + 1e-9)


def _filtered(y: Array, steps: tuple[int, int]) -> Array:
    """`y` is (samples, agents, outputs); `steps` are the numbers of agents to remove."""
    kept = np.ones(y.shape[:2], dtype=bool)
    for out in (number for number in steps if number):
        centred = np.where(kept[..., None], y - _mean_of(y, kept), 0)
        score = np.where(kept, np.square(_main_direction(centred)), -1)
        worst = np.argsort(-score, axis=1, kind="stable")[:, :out]
        np.put_along_axis(kept, worst, False, axis=1)
    return np.asarray(_mean_of(y, kept)[:, 0])


def _mean_of(y: Array, kept: NDArray[np.bool_]) -> Array:
    return np.asarray(np.where(kept[..., None], y, 0).sum(axis=1, keepdims=True) / kept.sum(axis=1)[:, None, None])


def _main_direction(centred: Array) -> Array:
    """v . y_j up to a factor of each sample (samples, agents), from the smaller of the two products of `centred`."""
    if centred.shape[1] <= centred.shape[2]:
        return np.asarray(np.linalg.eigh(centred @ centred.swapaxes(1, 2))[1][:, :, -1])
    v = np.linalg.eigh(centred.swapaxes(1, 2) @ centred)[1][:, :, -1]
    return np.asarray(np.einsum("sjc,sc->sj", centred, v))


def _weiszfeld(f: Array, steps: int) -> Array:
    r = f.mean(axis=0, dtype=np.float64)
    for _ in range(steps):
        distance = np.sqrt(np.square(f - r).sum(axis=2))
        weight = 1 / np.maximum(distance, CLOSE)
        new = np.einsum("js,jsc->sc", weight / weight.sum(axis=0), f)
        step = np.abs(new - r).max(initial=0)
        r = new
        if step < CLOSE:
            break
    return np.asarray(r, dtype=f.dtype)


def _normalised(r: Array, f: Array) -> Array:
    total = r.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, r / np.where(total > 0, total, 1), f.mean(axis=0)))
