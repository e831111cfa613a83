"""Cronus: a robust mean of all predictions labels the shared data."""

from dataclasses import dataclass
from typing import final

from consilience.core.robust import filtered_mean
from consilience.methods import METHODS
from consilience.methods.distillation import Distillation
from consilience.options import option
from consilience.tasks.protocol import Array


@METHODS.add("cronus")
@final
@dataclass(frozen=True)
class Cronus(Distillation):
    """psi(x) = the mean of the f_j(x) that a spectral filter leaves; everyone trains on D_i and (X*, psi).

    Chang et al. (2019), with the filter of Diakonikolas et al. (2017) sample by sample (`core/robust.py`). Models may
    be of any kind, and so may the task.
    """

    share: float = option(0.2, "of the agents that go at every sample", at_least=0, below=0.5)

    needs_classes = False

    def labels(self, f: Array) -> Array:
        """The filtered mean."""
        return filtered_mean(f, self.share)
