"""Naive trust: everyone counts the same."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options
from consilience.core.trust import uniform_trust
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context
from consilience.tasks.protocol import Array


@TRUST.add("uniform")
@final
@dataclass(frozen=True)
class Uniform(Options):
    """w_ij = 1/N."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.trust.uniform_trust`."""
        return uniform_trust(len(f))
