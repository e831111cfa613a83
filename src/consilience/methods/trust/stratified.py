"""Trust per stratum: a peer counts where it is informative."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.core.duals import centred_logs, softmax
from consilience.core.stratified import (
    agreement,
    capped,
    class_sizes,
    class_weights,
    correlations,
    informativeness,
    labels_of_rows,
    mean_weights,
    middle_mean,
    reference,
    strata,
    stratified_labels,
    stratified_weights,
    trust_by_correlation,
    value_strata,
    value_weights,
    voices,
)
from consilience.methods.trust import TRUST, trust_named
from consilience.methods.trust.protocol import ByClass, Context, Trust, TrustResult, apply_rule, label_of_rows
from consilience.methods.trust.simple import Centred, Paper
from consilience.tasks.protocol import Array

FEWEST = 4
"""Smallest number of agents for which strata are used: among three, the agent surer than one other would decide."""


@TRUST.add("stratified")
@final
@dataclass(frozen=True)
class Stratified(Options):
    """Strata are class x sure/unsure of a robust reference; a peer's weight there follows how informative it is.

    For values instead of probabilities, strata are ranges of the reference, and a peer is informative where it is
    within the noise of the reference. With fewer than four agents the base rule alone decides.
    """

    base: Trust | Callable[..., Any] = option(
        Centred(), "the rule that strata refine: centred | entropy | cosine | uniform | gaussian", resolve=trust_named
    )
    sharpness: float = option(3.0, "how much informativeness counts; 0 = not at all", at_least=0)
    shrinkage: float = option(
        0.0, "weight, in samples, of informativeness over all strata; 0 = estimated from the data", at_least=0
    )
    cap: bool = option(True, "trust no peer more than the median of its row, before strata refine it")
    duplicate_power: float = option(
        30.0, "power of the correlation from which similar agents share one voice; 0 = every agent counts", at_least=0
    )
    ranges: int = option(4, "strata for values: ranges of the reference with equally many samples", at_least=1)

    weighs_and_mixes = True

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """Pseudo-labels with trust by stratum, and the mean trust matrix for the record."""
        probabilities = context.task.probabilities(f)
        if probabilities is None:
            return self._values(f, context)
        groups = label_of_rows(f, context)
        w0, memory = self._base(f, probabilities, groups, context)
        classes, sure = reference(w0, probabilities)
        stratum = strata(classes, sure, probabilities.shape[2], groups)
        p = self.sharpness * agreement(w0, probabilities, classes) if self.sharpness and len(f) >= FEWEST else 0.0
        w = stratified_weights(w0, informativeness(probabilities, stratum, self.shrinkage, groups), p)
        labels = labels_of_rows if context.single else stratified_labels
        psi = _mixed(labels, w, probabilities, stratum.numbers, context)
        if groups is not None:
            psi = psi[..., 1].reshape(len(context.rows), *f.shape[1:])
        if context.single:
            return TrustResult(mean_weights(w, stratum.numbers), psi, memory)
        count = probabilities.shape[2] if groups is None else f.shape[2]
        by_class = ByClass(
            class_weights(w, stratum.numbers, count), *class_sizes(stratum.numbers, stratum.count, count)
        )
        return TrustResult(mean_weights(w, stratum.numbers), psi, memory, by_class)

    def _base(
        self, f: Array, probabilities: Array, groups: Array | None, context: Context
    ) -> tuple[Array, dict[str, Array]]:
        """The base rule's matrix, capped and with one voice for agents that agree in everything; the base's memory."""
        memory: dict[str, Array] = {}
        if isinstance(self.base, Centred):
            rho = correlations(probabilities, groups)
            w = trust_by_correlation(rho)
        else:
            result = apply_rule(self.base, f, context)
            if result.labels is not None:
                raise ConsilienceError(
                    "the base of stratified trust must give one matrix, not weights for every sample."
                )
            w, memory = result.trust, result.memory
            rho = correlations(probabilities, groups)
        w = (capped(w) if self.cap else w) * voices(rho, self.duplicate_power)
        w = w if context.weights is None else w * context.weights
        return w / w.sum(axis=1, keepdims=True), memory

    def _values(self, f: Array, context: Context) -> TrustResult:
        """The same for values. Every agent has its own reference, as it knows only the noise of its own labels."""
        base = Paper() if isinstance(self.base, Centred) else self.base
        result = apply_rule(base, f, context)
        matrix = result.trust
        trust, psi = np.eye(len(f)), np.empty((len(context.rows), *f.shape[1:]), dtype=f.dtype)
        for row, i in enumerate(context.rows):
            w0 = _capped_row(matrix[i], int(i)) if self.cap else matrix[i]
            r = middle_mean(w0, f)
            numbers = value_strata(r, self.ranges)
            w = value_weights(w0, f, r, numbers, float(context.noise[i]), self.sharpness, self.shrinkage)
            psi[row] = np.einsum("js,jsc->sc", w[numbers].T, f)
            trust[i] = w[numbers].mean(axis=0)
        return TrustResult(trust, psi, result.memory)


def _mixed(labels: Callable[..., Array], w: Array, f: Array, numbers: Array, context: Context) -> Array:
    """Pseudo-labels by strata: the mean of probabilities, or of their logits."""
    if not context.scale:
        return labels(w, f, numbers, context.rows)
    z = np.asarray(centred_logs(f), dtype=f.dtype)
    return np.asarray(softmax(labels(w, z, numbers, context.rows)), dtype=f.dtype)


def _capped_row(row: Array, own: int) -> Array:
    low = np.minimum(row, np.median(row))
    low[own] = row[own]
    return np.asarray(low / low.sum())
