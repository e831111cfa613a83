"""Comparison: the median of what all say, output by output. Nobody is weighed."""

from dataclasses import dataclass
from typing import final

from consilience.core.robust import coordinate_median
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, Opinion, same_for_all
from consilience.options import Options
from consilience.tasks.protocol import Array


@TRUST.add("median")
@final
@dataclass(frozen=True)
class Median(Options):
    """Robust until half of the agents lie, if the honest say nearly the same; blind to who knows more."""

    def __call__(self, f: Array, context: Context) -> Opinion:
        """`core.robust.coordinate_median` as everyone's pseudo-labels."""
        return same_for_all(coordinate_median(f, context.task.sums_to_one), f, context)
