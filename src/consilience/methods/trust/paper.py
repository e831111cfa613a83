"""The paper's trust: entropy for probabilities, gaussian for values."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options
from consilience.methods.trust import TRUST
from consilience.methods.trust.entropy import Entropy
from consilience.methods.trust.gaussian import Gaussian
from consilience.methods.trust.protocol import Context
from consilience.tasks.protocol import Array


@TRUST.add("paper")
@final
@dataclass(frozen=True)
class Paper(Options):
    """As in the paper: one number for each peer, from how far it agrees with us where we are sure."""

    def __call__(self, f: Array, context: Context) -> Array:
        """The rule `entropy`; for values, of which the paper gives no formula, `gaussian`."""
        return Gaussian()(f, context) if context.task.probabilities(f) is None else Entropy()(f, context)
