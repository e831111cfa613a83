"""Trust per stratum: trust in a peer depends on the class that a sample seems to have, and on how clear this is.

One number per peer is coarse: a hospital that never saw a disease is trusted on it as much as elsewhere, and one that
agrees where all are sure may lie where they are not. Here samples fall into strata by the class that a robust
reference predicts and by whether it is sure, and a peer's weight in a stratum is how informative it is there.

`f` is always (agents, samples, classes), a distribution over classes for each agent and sample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consilience.core.trust import CHUNK_BYTES, chunks, flat

Array = NDArray[np.floating]
Indices = NDArray[np.integer]

FEW_CLASSES = 4
"""Up to this number of classes, the middle means of all are computed at once."""
LEAST = 1e-3
"""Added to every score, so that no agent counts nothing."""


def correlations(f: Array, groups: Indices | None = None) -> Array:
    """rho_ij = <u_i, u_j> / (|u_i| |u_j|) with u_i(x) = f_i(x) - mean over x of f_i, over samples and classes.

    With `groups` (samples,), such as the labels of rows, the mean is that of the group, so that different frequencies
    of labels do not count as agreement.

    0 if one of the two is constant. The cosine of two probability vectors is high by chance; without the mean it is
    high only if they vary together. (agents, agents).

    >>> f = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.4, 0.6]], [[0.1, 0.9], [0.7, 0.3]]])
    >>> correlations(f).round(2).tolist()
    [[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    agents = len(f)
    products = np.zeros((agents, agents))
    for own in [f] if groups is None else (f[:, groups == group] for group in np.unique(groups)):
        mean = own.mean(axis=1, dtype=np.float64).astype(f.dtype)
        for chunk in chunks(own):
            u = flat(chunk - mean[:, None])
            products += u @ u.T
    size = np.sqrt(np.diagonal(products))
    scale = np.outer(size, size)
    return np.asarray(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0))


def centred_trust(f: Array, groups: Indices | None = None) -> Array:
    """w_ij proportional to max(0.001, rho_ij), the `correlations` of predictions; w_ii is that of the best peer.

    >>> f = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.8, 0.2], [0.4, 0.6]], [[0.1, 0.9], [0.7, 0.3]]])
    >>> centred_trust(f).round(2).tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.33, 0.33, 0.33]]
    """
    return trust_by_correlation(correlations(f, groups))


def trust_by_correlation(rho: Array) -> Array:
    """`centred_trust` of predictions with these correlations."""
    agents = len(rho)
    gamma = np.maximum(rho, LEAST)
    gamma[np.diag_indices(agents)] = 0
    gamma[np.diag_indices(agents)] = gamma.max(axis=1) if agents > 1 else 1
    return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))


def voices(rho: Array, power: float) -> Array:
    """v_j = 1 / sum_k max(0, rho_jk)^power, at most the median over j: agents that agree in everything share a voice.

    Three colluding agents count as one. No agent counts more by being unlike the others, and if all agents agree alike
    nothing changes. With the power 0 all voices are the same. (agents,).

    >>> voices(np.array([[1, 1, 0.5, 0], [1, 1, 0.5, 0], [0.5, 0.5, 1, 0], [0, 0, 0, 1]]), 20).round(2).tolist()
    [0.5, 0.5, 0.75, 0.75]
    """
    alike = np.maximum(rho, 0) ** power if power else np.ones_like(rho)
    np.fill_diagonal(alike, 1)
    v = 1 / alike.sum(axis=1)
    return np.asarray(np.minimum(v, np.median(v)))


def capped(w: Array) -> Array:
    """`w` with no peer above the median of its row; the diagonal stays. No peer can dominate a row.

    >>> capped(np.array([[0.2, 0.6, 0.1, 0.1]]))[0].round(3).tolist()
    [0.364, 0.273, 0.182, 0.182]
    """
    low = np.minimum(w, np.median(w, axis=1, keepdims=True))
    diagonal = np.arange(len(w)), np.arange(len(w))
    low[diagonal] = w[diagonal]
    return np.asarray(low / low.sum(axis=1, keepdims=True))


def middle_mean(w: Array, f: Array) -> Array:
    """The mean of the middle third: of every coordinate, a third of the weight is cut off below and a third above.

    `w` is (agents,), `f` (agents, ...); returned is (...). Agents with less than a third of the weight cannot move it
    beyond the predictions of the others. For two agents with equal weights it is their mean, not one of them as for a
    median.

    >>> middle_mean(np.array([1.0, 1.0, 1.0]), np.array([[0.25], [0.5], [0.75]])).round(4).tolist()
    [0.5]
    >>> middle_mean(np.array([1.0, 1.0]), np.array([[0.1], [0.9]])).round(4).tolist()
    [0.5]
    """
    values = np.asarray(f, dtype=np.float32).reshape(len(f), -1) + np.float32(0)  # + 0 removes the sign of -0.0
    signed = bool((values < 0).any())
    result = np.empty(values.shape[1], dtype=np.float32)
    numbers = np.arange(len(f), dtype=np.uint64)[:, None]
    share = w / w.sum()
    step = max(1, CHUNK_BYTES // (64 * len(f)))
    for start in range(0, len(result), step):
        chunk = np.ascontiguousarray(values[:, start : start + step])
        bits = chunk.view(np.uint32)
        bits = _sortable(bits) if signed else bits
        keys = (bits.astype(np.uint64) << np.uint64(32)) | numbers
        keys.sort(axis=0)  # by value (bits of floats >= 0 have the same order), then by agent
        agents = (keys & np.uint64(0xFFFFFFFF)).astype(np.intp)
        bits = (keys >> np.uint64(32)).astype(np.uint32)
        sorted_values = (_unsortable(bits) if signed else bits).view(np.float32)
        below, total = np.zeros(keys.shape[1]), np.zeros(keys.shape[1])
        inside = np.zeros(keys.shape[1])  # weight of the middle third so far
        for row, value in zip(agents, sorted_values, strict=True):
            below += share[row]
            reached = np.clip(below - 1 / 3, 0, 1 / 3)
            total += (reached - inside) * value
            inside = reached
        result[start : start + step] = total / inside
    return result.reshape(f.shape[1:])


def _sortable(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Bits of floats of any sign as integers in the order of the floats."""
    return bits ^ np.where(bits >> 31, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))


def _unsortable(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The inverse of `_sortable`."""
    return bits ^ np.where(bits >> 31, np.uint32(0x80000000), np.uint32(0xFFFFFFFF))


def reference(w0: Array, f: Array, candidates: int = 3) -> tuple[Indices, Array]:
    """c(x) and how sure: the largest of the middle means r_c(x) of all predictions for each class c, (samples,) each.

    An agent's weight is the median over rows of the capped trust `w0` in it, which a minority cannot move far. As r_c
    is at most 3/2 of the weighted mean, the largest is among the `candidates` with the highest means unless 3/2 of the
    next mean is as large; only then all classes are computed.
    """
    w = np.median(w0, axis=0)
    if f.shape[2] <= FEW_CLASSES:
        r = middle_mean(w, f)
        return r.argmax(axis=1), r.max(axis=1)
    mean = np.tensordot((w / w.sum()).astype(f.dtype), f, axes=1)
    samples = np.arange(f.shape[1])[:, None]
    order = np.argpartition(-mean, candidates, axis=1)
    chosen = np.sort(order[:, :candidates], axis=1)
    r = middle_mean(w, f[:, samples, chosen])
    classes, sure = chosen[samples[:, 0], r.argmax(axis=1)], r.max(axis=1)
    next_mean = mean[samples[:, 0], order[:, candidates]]
    open_ = np.flatnonzero(1.501 * next_mean >= sure)
    if len(open_):
        r = middle_mean(w, f[:, open_])
        classes[open_], sure[open_] = r.argmax(axis=1), r.max(axis=1)
    return classes, sure


@dataclass(frozen=True)
class Strata:
    """Samples by their class in the reference, and by how sure it is."""

    classes: Indices
    """c(x), (samples,)."""
    numbers: Indices
    """b(x), (samples,): 2 c(x), and one more where the reference is less sure than its median over the group."""
    count: int


def strata(classes: Indices, sure: Array, outputs: int, groups: Indices | None = None) -> Strata:
    """The strata of samples: class x sure or unsure, within each of `groups`.

    >>> strata(np.array([0, 0, 1]), np.array([0.9, 0.6, 0.7]), 2).numbers.tolist()
    [0, 1, 2]
    """
    groups = np.zeros(len(sure), dtype=np.intp) if groups is None else groups
    unsure = np.zeros(len(sure), dtype=np.intp)
    for group in range(int(groups.max(initial=0)) + 1):
        own = groups == group
        unsure[own] = sure[own] < np.median(sure[own])
    kinds = 2 * outputs
    return Strata(classes, groups * kinds + 2 * classes + unsure, kinds * (int(groups.max(initial=0)) + 1))


def informativeness(f: Array, stratum: Strata, k0: float = 0.0, groups: Indices | None = None) -> Array:
    """s_j[b]: how much more than on average agent j predicts the reference's class in stratum b, (agents, strata).

    a_j(x) = max(0, f_j(x)[c(x)] - mean over x' of f_j(x')[c(x)]) + 0.001, at most what more than a third of the agents
    reach: if fewer are attackers, no agent counts more by being sure than some honest agent does. s_j[b] is its mean
    over the stratum, shrunk to its mean over all samples by `shrunk`. An agent that always predicts the most frequent
    class predicts it nowhere more than on average.
    """
    samples = np.arange(f.shape[1])
    predicted = f[:, samples, stratum.classes].astype(np.float64)
    groups = np.zeros(len(samples), dtype=np.intp) if groups is None else groups
    usual = np.stack([f[:, groups == g].mean(axis=1, dtype=np.float64) for g in range(int(groups.max(initial=0)) + 1)])
    a = np.maximum(0, predicted - usual[groups, :, stratum.classes].T) + LEAST
    return shrunk(np.minimum(a, reached_by_a_third(a)), stratum.numbers, stratum.count, k0)


def reached_by_a_third(a: Array) -> Array:
    """The (floor((N - 1) / 3) + 1)-th largest over agents: more than a third of them reach it, (samples,).

    >>> reached_by_a_third(np.array([[0.9], [0.5], [0.4], [0.1]])).tolist()
    [0.5]
    """
    rank = len(a) - 1 - (len(a) - 1) // 3
    return np.asarray(np.partition(a, rank, axis=0)[rank])


def shrunk(a: Array, numbers: Indices, count: int, k0: float = 0.0) -> Array:
    """Means of `a` (agents, samples) over strata, shrunk to each agent's mean over all samples, (agents, strata):

    (sum of a over the stratum + k0 mean of a) / (samples of the stratum + k0). With `k0` 0 the weight of the common
    mean comes from the data: `samples_worth`.
    """
    sizes = np.bincount(numbers, minlength=count)
    sums: Array = np.stack([np.bincount(numbers, weights=row, minlength=count) for row in a]).astype(np.float64)
    k0 = k0 or samples_worth(a, sizes, sums)
    return np.asarray((sums + k0 * a.mean(axis=1, keepdims=True)) / (sizes + k0))


def samples_worth(a: Array, sizes: Indices, sums: Array) -> float:
    """The weight of the mean over all, in samples of a stratum: variance within / variance between strata.

    The empirical Bayes weight of a one-way random-effects model, estimated by moments and pooled over agents; from
    0.1 to 10,000, and 5 if there are too few strata or samples.
    """
    used = sizes > 0
    strata_used, samples = int(used.sum()), int(sizes.sum())
    if strata_used < 2 or samples <= strata_used:
        return 5.0
    means = sums[:, used] / sizes[used]
    within = (np.square(a).sum() - (sizes[used] * np.square(means)).sum()) / (len(a) * (samples - strata_used))
    spread = np.square(means - a.mean(axis=1, keepdims=True))
    mean_size = (samples - np.square(sizes).sum() / samples) / (strata_used - 1)
    between = ((sizes[used] * spread).sum() / (len(a) * (strata_used - 1)) - within) / mean_size
    return float(np.clip(within / max(between, 1e-12), 0.1, 1e4))


def agreement(w0: Array, f: Array, classes: Indices) -> float:
    """max(0, 2 A - 1), with A the share of samples on which mean and middle mean name the same class.

    The weights of both are those of `reference`, whose classes are `classes`. If the two differ much, some agents
    distort the mean, or agents know different things: then informativeness, which is relative to the reference, means
    less.
    """
    w = np.median(w0, axis=0)
    mean = np.tensordot((w / w.sum()).astype(f.dtype), f, axes=1)
    return max(0.0, 2 * float((mean.argmax(axis=1) == classes).mean()) - 1)


def stratified_weights(w0: Array, s: Array, p: float) -> Array:
    """w_ij[b] proportional to w0_ij (s_j[b] / max_j s_j[b])^p, (strata, agents, agents)."""
    factor = (s / s.max(axis=0)) ** p
    w = w0[None] * factor.T[:, None, :]
    return np.asarray(w / w.sum(axis=2, keepdims=True))


def stratified_labels(w: Array, f: Array, numbers: Indices, rows: Indices) -> Array:
    """psi_i(x) = sum_j w_ij[b(x)] f_j(x) for the agents `rows`, (rows, samples, classes).

    `w` is (strata, agents, agents). Each stratum is one product for all agents, so that the bits of a row do not depend
    on `rows`.
    """
    psi = np.empty((len(rows), *f.shape[1:]), dtype=f.dtype)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=len(w)))
    step = max(1, CHUNK_BYTES // (f.shape[0] * f.shape[2] * f.itemsize))
    for stratum, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        for first in range(start, end, step):
            members = order[first : min(first + step, end)]
            predictions = np.ascontiguousarray(f[:, members]).reshape(len(f), -1)
            mixed = w[stratum].astype(f.dtype) @ predictions
            psi[:, members] = mixed[rows].reshape(len(rows), len(members), -1)
    return psi


def labels_of_rows(w: Array, f: Array, numbers: Indices, rows: Indices) -> Array:
    """As `stratified_labels`, computed for few `rows` alone: faster, and the last bits may differ."""
    weights = w[:, rows].astype(f.dtype)[numbers]
    return np.stack([np.matmul(weights[:, None, at], f.transpose(1, 0, 2))[:, 0] for at in range(len(rows))])


def mean_weights(w: Array, numbers: Indices) -> Array:
    """The mean of w_ij(x) over samples, for the record: (agents, agents)."""
    share = np.bincount(numbers, minlength=len(w)) / len(numbers)
    return np.asarray(np.tensordot(share, w, axes=1))


def class_weights(w: Array, numbers: Indices, classes: int) -> Array:
    """The mean of w_ij(x) over the samples of each class, or label: (classes, agents, agents); NaN without samples.

    All classes have the same number of strata, which follow each other.
    """
    sizes = np.bincount(numbers, minlength=len(w)).reshape(classes, -1)
    total = sizes.sum(axis=1)
    parts = w.reshape(classes, sizes.shape[1], *w.shape[1:])
    summed = np.einsum("ck,ckij->cij", sizes, parts)
    return np.asarray(summed / np.where(total > 0, total, np.nan)[:, None, None])


def class_sizes(numbers: Indices, count: int, classes: int) -> tuple[Indices, Array]:
    """Samples of each class, and the share of them on which the reference is unsure."""
    sizes = np.bincount(numbers, minlength=count).reshape(classes, -1)
    total = sizes.sum(axis=1)
    return total, np.asarray(sizes[:, 1::2].sum(axis=1) / np.maximum(total, 1))


def value_strata(r: Array, ranges: int) -> Indices:
    """Ranges of the reference `r` (samples, outputs), by the mean over outputs, with equally many samples each."""
    rank = np.argsort(np.argsort(r.mean(axis=1), kind="stable"), kind="stable")
    return np.asarray(rank * min(ranges, len(r)) // len(r))


def value_weights(w0: Array, f: Array, r: Array, numbers: Indices, scale: float, p: float, k0: float) -> Array:
    """w_j[b] proportional to w0_j (s_j[b] / max_j s_j[b])^p for values, (strata, agents).

    s_j[b] is the mean over the stratum of exp(-|f_j(x) - r(x)|^2 / (2 m scale^2)) + 0.001 for m outputs, shrunk as for
    classes; `f` is (agents, samples, outputs) and `r` the reference (samples, outputs).
    """
    a = np.exp(-np.square(f - r).mean(axis=2, dtype=np.float64) / (2 * scale * scale)) + LEAST
    s = shrunk(a, numbers, int(numbers.max()) + 1, k0)
    w = w0[:, None] * (s / s.max(axis=0)) ** p
    return np.asarray((w / w.sum(axis=0)).T)
