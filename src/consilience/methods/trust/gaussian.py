"""Trust for regression: a peer within the noise of our own labels is a peer that agrees."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options
from consilience.core.trust import gaussian_trust
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context
from consilience.tasks.protocol import Array


@TRUST.add("gaussian")
@final
@dataclass(frozen=True)
class Gaussian(Options):
    """A Gaussian kernel on the distance between predicted values."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.trust.gaussian_trust`; rows of agents that live elsewhere are not known."""
        return gaussian_trust(f, context.noise)
