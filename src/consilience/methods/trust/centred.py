"""Correlation of predictions: whether two agents move together, beyond what is usual for each."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options
from consilience.core.stratified import centred_trust
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, label_of_rows, needed_probabilities
from consilience.tasks.protocol import Array


@TRUST.add("centred")
@final
@dataclass(frozen=True)
class Centred(Options):
    """The cosine of what is left of predictions without their mean over samples; of several labels, without each's."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.stratified.centred_trust`."""
        return centred_trust(needed_probabilities(self, f, context), label_of_rows(f, context))
