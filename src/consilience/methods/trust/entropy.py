"""The paper's trust: agreement with a peer, weighted by how sure the agent itself is."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options, option
from consilience.core.trust import FLOOR, OFFSET, entropy_trust
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, needed_probabilities
from consilience.tasks.protocol import Array


@TRUST.add("entropy")
@final
@dataclass(frozen=True)
class Entropy(Options):
    """Cosine of predictions, each sample weighted by how sure the agent is (label `w-calculation-1`)."""

    offset: float = option(OFFSET, "added to the entropy: 1 as in the authors' code, 0 as in the paper", at_least=0)
    floor: float = option(FLOOR, "smallest divisor, for an offset of 0", above=0)

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.trust.entropy_trust`."""
        return entropy_trust(needed_probabilities(self, f, context), self.offset, self.floor)
