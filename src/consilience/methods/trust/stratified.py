"""Trust per stratum: a peer counts where it knows something."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
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
from consilience.methods.trust.centred import Centred
from consilience.methods.trust.paper import Paper
from consilience.methods.trust.protocol import ByClass, Context, Trust, TrustResult, apply_rule, label_of_rows
from consilience.tasks.protocol import Array

FEWEST = 4
"""Agents from which on strata count: among three, whoever is surer than one other would be the reference."""


@TRUST.add("stratified")
@final
@dataclass(frozen=True)
class Stratified(Options):
    """Strata are class x sure/unsure of a robust reference; a peer's weight there follows how informative it is.

    For values instead of probabilities, strata are ranges of the reference, and a peer is informative where it is
    within the noise of the reference. With fewer than four agents there is nothing to measure a peer against, and the
    base decides.
    """

    base: Trust | Callable[..., Any] = option(
        Centred(), "the rule that strata refine: centred | entropy | cosine | uniform | gaussian", resolve=trust_named
    )
    p: float = option(
        3.0, "how sharply informativeness counts where reference and mean agree; 0 not at all", at_least=0
    )
    k0: float = option(
        0.0, "samples' worth of shrinking to what a peer is worth everywhere; 0 from the data", at_least=0
    )
    cap: bool = option(True, "hold every peer at most at the median of its row before strata refine it")
    unison: float = option(30.0, "how alike agents are that share one voice: a power; 0 counts every agent", at_least=0)
    ranges: int = option(4, "strata for values: ranges of the reference with equally many samples", at_least=1)

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """Pseudo-labels that weigh peers by stratum, with the mean matrix for the record."""
        probabilities = context.task.probabilities(f)
        if probabilities is None:
            return self._values(f, context)
        groups = label_of_rows(f, context)  # a question for every sample and label
        w0, memory = self._base(f, probabilities, groups, context)
        classes, sure = reference(w0, probabilities)
        found = strata(classes, sure, probabilities.shape[2], groups)
        sharpness = self.p * agreement(w0, probabilities, classes) if self.p and len(f) >= FEWEST else 0.0
        w = stratified_weights(w0, informativeness(probabilities, found, self.k0, groups), sharpness)
        labels = labels_of_rows if context.single else stratified_labels
        psi = labels(w, probabilities, found.numbers, context.rows)
        if groups is not None:
            psi = psi[..., 1].reshape(len(context.rows), *f.shape[1:])
        if context.single:
            return TrustResult(mean_weights(w, found.numbers), psi, memory)
        count = probabilities.shape[2] if groups is None else f.shape[2]
        by_class = ByClass(class_weights(w, found.numbers, count), *class_sizes(found.numbers, found.count, count))
        return TrustResult(mean_weights(w, found.numbers), psi, memory, by_class)

    def _base(
        self, f: Array, probabilities: Array, groups: Array | None, context: Context
    ) -> tuple[Array, dict[str, Array]]:
        """The base rule's matrix, capped and with one voice for those who say the same; and what the base keeps."""
        memory: dict[str, Array] = {}
        if isinstance(self.base, Centred):
            rho = correlations(probabilities, groups)
            w = trust_by_correlation(rho)
        else:
            said = apply_rule(self.base, f, context)
            if said.labels is not None:
                raise ConsilienceError(
                    "the base of stratified trust must give one matrix, not weights for every sample."
                )
            w, memory = said.trust, said.memory
            rho = correlations(probabilities, groups)
        w = (capped(w) if self.cap else w) * voices(rho, self.unison)
        return w / w.sum(axis=1, keepdims=True), memory

    def _values(self, f: Array, context: Context) -> TrustResult:
        """As above for values: every agent has a reference of its own, as it knows only the noise of its own labels."""
        base = Paper() if isinstance(self.base, Centred) else self.base
        said = apply_rule(base, f, context)
        matrix = said.trust
        trust, psi = np.eye(len(f)), np.empty((len(context.rows), *f.shape[1:]), dtype=f.dtype)
        for place, i in enumerate(context.rows):
            w0 = _capped_row(matrix[i], int(i)) if self.cap else matrix[i]
            r = middle_mean(w0, f)
            numbers = value_strata(r, self.ranges)
            w = value_weights(w0, f, r, numbers, float(context.noise[i]), self.p, self.k0)
            psi[place] = np.einsum("js,jsc->sc", w[numbers].T, f)
            trust[i] = w[numbers].mean(axis=0)
        return TrustResult(trust, psi, said.memory)


def _capped_row(row: Array, own: int) -> Array:
    low = np.minimum(row, np.median(row))
    low[own] = row[own]
    return np.asarray(low / low.sum())
