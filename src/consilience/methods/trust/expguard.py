"""Comparison: ExpGuard, whose trust in an agent falls with its distance from the others, summed over rounds."""

from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.base.options import Options, option
from consilience.core.robust import coordinate_median, exponential_weights, mean_distances
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, TrustResult
from consilience.tasks.protocol import Array


@TRUST.add("expguard")
@final
@dataclass(frozen=True)
class ExpGuard(Options):
    """w_ij proportional to exp(-step L_j) for every i, with L_j the sum over rounds of how far j was from the median.

    After Roux, Zimmer and Pokutta, On the Byzantine-resilience of distillation-based federated learning (arXiv
    2402.12265): weights over rounds around a robust aggregate, here the coordinate-wise median. An agent that is not
    heard keeps its loss; an agent that joins later starts with the smallest loss of those heard.
    """

    step: float = option(1.0, "how fast trust is lost with the distance to the median", at_least=0)

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.robust.exponential_weights` of the losses so far."""
        distances = mean_distances(f, coordinate_median(f, context.task.sums_to_one))
        before = [context.memory[name] for name in context.names if name in context.memory]
        least = min(before, default=np.zeros(()))
        losses = np.array([context.memory.get(name, least) for name in context.names]) + distances
        kept = dict(context.memory) | dict(zip(context.names, losses, strict=True))
        w = np.tile(exponential_weights(losses, self.step), (len(f), 1))
        return TrustResult(w, memory={name: np.asarray(value) for name, value in kept.items()})
