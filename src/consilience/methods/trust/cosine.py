"""Plain cosine similarity, the matrix Phi of the paper."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options
from consilience.core.trust import cosine_trust
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, needed_probabilities
from consilience.tasks.protocol import Array


@TRUST.add("cosine")
@final
@dataclass(frozen=True)
class Cosine(Options):
    """Every sample counts the same."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.trust.cosine_trust`."""
        return cosine_trust(needed_probabilities(self, f, context))
