"""Rules with the same pseudo-labels for all agents, as in other methods of sharing predictions."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options, option
from consilience.core.distillation import mean_logits, sharpened_mean
from consilience.core.labels import majority_labels
from consilience.core.robust import STEPS, coordinate_median, filtered_mean, geometric_median, trimmed_mean
from consilience.methods.trust import TRUST
from consilience.methods.trust.protocol import Context, TrustResult, same_for_all
from consilience.tasks.protocol import Array


@TRUST.add("vote")
@final
@dataclass(frozen=True)
class Vote(Options):
    """psi = one-hot argmax_c #{j : argmax f_j = c}: one vote each. A tie goes to the lowest class."""

    needs_classes = True

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.labels.majority_labels`."""
        return same_for_all(majority_labels(f), f, context)


@TRUST.add("mean-logits")
@final
@dataclass(frozen=True)
class MeanLogits(Options):
    """psi = softmax(1/N sum_j z_j), z_j the logits of agent j."""

    floor: float = option(1e-3, "smaller probabilities are raised to this before the logarithm", above=0, below=1)

    needs_classes = True

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.distillation.mean_logits`."""
        return same_for_all(mean_logits(f, self.floor), f, context)


@TRUST.add("sharpened-mean")
@final
@dataclass(frozen=True)
class SharpenedMean(Options):
    """psi = softmax(1/T 1/N sum_j f_j), entropy-reduction aggregation."""

    temperature: float = option(0.1, "T of the softmax; the lower, the sharper", above=0)

    needs_classes = True

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.distillation.sharpened_mean`."""
        return same_for_all(sharpened_mean(f, self.temperature), f, context)


@TRUST.add("filtered-mean")
@final
@dataclass(frozen=True)
class FilteredMean(Options):
    """psi(x) = the mean of the f_j(x) that a spectral filter keeps, sample by sample (Diakonikolas et al., 2017)."""

    share: float = option(0.2, "of the agents that are filtered out at every sample", at_least=0, below=0.5)

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.robust.filtered_mean`."""
        return same_for_all(filtered_mean(f, self.share), f, context)


@TRUST.add("median")
@final
@dataclass(frozen=True)
class Median(Options):
    """The median of all predictions, output by output.

    Robust against attackers up to half of the agents, if honest predictions are similar; ignores who knows more.
    """

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.robust.coordinate_median`."""
        return same_for_all(coordinate_median(f, context.task.sums_to_one), f, context)


@TRUST.add("trimmed")
@final
@dataclass(frozen=True)
class Trimmed(Options):
    """The mean without the most extreme values of each output.

    Robust against as many attackers as are cut off at each end, if honest predictions are similar.
    """

    share: float = option(0.3, "of the agents, cut off at each end of every output", at_least=0, below=0.5)

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.robust.trimmed_mean`."""
        return same_for_all(trimmed_mean(f, self.share, context.task.sums_to_one), f, context)


@TRUST.add("geometric")
@final
@dataclass(frozen=True)
class Geometric(Options):
    """The point with the smallest sum of distances to all predictions, sample by sample: as robust as the median."""

    steps: int = option(STEPS, "largest number of steps of Weiszfeld's algorithm", at_least=1)

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.robust.geometric_median`."""
        return same_for_all(geometric_median(f, self.steps), f, context)
