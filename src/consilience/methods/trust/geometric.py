"""Comparison: the point with the least distance to what all say, sample by sample. Nobody is weighed for good."""

from dataclasses import dataclass
from typing import final

from consilience.core.robust import STEPS, geometric_median
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, Opinion, same_for_all
from consilience.options import Options, option
from consilience.tasks.protocol import Array


@TRUST.add("geometric")
@final
@dataclass(frozen=True)
class Geometric(Options):
    """The geometric median: as robust as the median, and a mixture of what was said."""

    steps: int = option(STEPS, "of Weiszfeld's, at most", at_least=1)

    def __call__(self, f: Array, context: Context) -> Opinion:
        """`core.robust.geometric_median` as everyone's pseudo-labels."""
        return same_for_all(geometric_median(f, self.steps), f, context)
