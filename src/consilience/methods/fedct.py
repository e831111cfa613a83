"""FedCT: a vote labels the shared data, which join everyone's training set."""

from dataclasses import dataclass
from typing import final

from consilience.core.labels import majority_labels
from consilience.core.wire import Wire
from consilience.methods import METHODS
from consilience.methods.distillation import Distillation
from consilience.options import option
from consilience.tasks.protocol import Array


@METHODS.add("fedct")
@final
@dataclass(frozen=True)
class FedCT(Distillation):
    """psi = one-hot argmax_c #{j : argmax f_j = c}; everyone trains on D_i and (X*, psi) (Abourayya et al., 2025).

    Only the most probable class of each sample is published, one byte for up to 256 classes. A tie goes to the lowest
    class. Models may be of any kind.
    """

    wire: Wire = option(Wire("label"), "predictions as they are published")

    def labels(self, f: Array) -> Array:
        """The majority's."""
        return majority_labels(f)
