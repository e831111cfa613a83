"""Trust rules without options: uniform, cosine, centred, gaussian, and those that choose a rule by the task."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options
from consilience.core.stratified import centred_trust
from consilience.core.trust import cosine_trust, gaussian_trust, uniform_trust
from consilience.methods.trust import TRUST, trust_named
from consilience.methods.trust.entropy import Entropy
from consilience.methods.trust.protocol import Context, TrustResult, label_of_rows, needed_probabilities
from consilience.tasks.protocol import Array


@TRUST.add("uniform")
@final
@dataclass(frozen=True)
class Uniform(Options):
    """Naive trust, w_ij = 1/N."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.trust.uniform_trust`."""
        return uniform_trust(len(f))


@TRUST.add("cosine")
@final
@dataclass(frozen=True)
class Cosine(Options):
    """Cosine similarity of predictions, the matrix Phi of the paper: every sample counts the same."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.trust.cosine_trust`."""
        return cosine_trust(needed_probabilities(self, f, context))


@TRUST.add("centred")
@final
@dataclass(frozen=True)
class Centred(Options):
    """Correlation of predictions: their cosine after the mean over samples is subtracted, label by label."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.stratified.centred_trust`."""
        return centred_trust(needed_probabilities(self, f, context), label_of_rows(f, context))


@TRUST.add("gaussian")
@final
@dataclass(frozen=True)
class Gaussian(Options):
    """Trust for regression: a Gaussian kernel on the distance of predictions, as wide as the noise of own labels."""

    def __call__(self, f: Array, context: Context) -> Array:
        """`core.trust.gaussian_trust`; NaN in the rows of agents of other processes."""
        return gaussian_trust(f, context.noise)


@TRUST.add("paper")
@final
@dataclass(frozen=True)
class Paper(Options):
    """The paper's trust: `entropy` for probabilities; for values, where the paper has no formula, `gaussian`."""

    def __call__(self, f: Array, context: Context) -> Array:
        """As `Entropy` or `Gaussian`."""
        return Gaussian()(f, context) if context.task.probabilities(f) is None else Entropy()(f, context)


@TRUST.add("default")
@final
@dataclass(frozen=True)
class Default(Options):
    """The rule that suits the task: `stratified` for probabilities, `gaussian` for values."""

    weighs_and_mixes = True

    def __call__(self, f: Array, context: Context) -> Array | TrustResult:
        """As the rule that the task names."""
        return trust_named(context.task.trust)(f, context)
