"""Corrections of class frequencies: in private labels, and in pseudo-labels."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def class_offsets(counts: Sequence[int], classes: int) -> Array:
    """log(C (n_c + 1) / sum_k (n_k + 1)) for each class c, with n_c private samples of it.

    They are added to the logits in the private loss, CE(z + offsets, y), so that softmax(z) predicts as if all classes
    were equally frequent (logit adjustment: Menon et al., 2021).

    >>> class_offsets([2, 0], 2).round(3).tolist()
    [0.405, -0.693]
    """
    smoothed = np.ones(classes)
    smoothed[: len(counts)] += counts
    return np.asarray(np.log(classes * smoothed / smoothed.sum()))


def match_class_prior(psi: Array, prior: Array, times: int = 3) -> Array:
    """Pseudo-labels (samples, classes) whose mean over samples is near the class `prior`; `times` times:

    psi_c(x) <- psi_c(x) prior_c / mean_x psi_c(x), and every row is divided by its sum.

    >>> match_class_prior(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0.5, 0.5])).round(2).tolist()
    [[0.71, 0.29], [0.29, 0.71]]
    """
    for _ in range(times):
        psi = psi * (prior / np.maximum(psi.mean(axis=0, dtype=np.float64), 1e-12)).astype(psi.dtype)
        psi = psi / psi.sum(axis=1, keepdims=True)
    return psi
