"""Comparison: the mean without the most extreme values of each output. Nobody is weighed."""

from dataclasses import dataclass
from typing import final

from consilience.core.robust import trimmed_mean
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, Opinion, same_for_all
from consilience.options import Options, option
from consilience.tasks.protocol import Array


@TRUST.add("trimmed")
@final
@dataclass(frozen=True)
class Trimmed(Options):
    """Robust against so many liars as are cut off at each end, if the honest say nearly the same."""

    share: float = option(0.3, "of the agents, cut off at each end of every output", at_least=0, below=0.5)

    def __call__(self, f: Array, context: Context) -> Opinion:
        """`core.robust.trimmed_mean` as everyone's pseudo-labels."""
        return same_for_all(trimmed_mean(f, self.share, context.task.sums_to_one), f, context)
