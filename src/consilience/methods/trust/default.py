"""The rule of the task: stratified for probabilities, gaussian for values."""

from dataclasses import dataclass
from typing import final

from consilience.base.options import Options
from consilience.methods.trust import TRUST, trust_named
from consilience.methods.trust.protocol import Context, TrustResult
from consilience.tasks.protocol import Array


@TRUST.add("default")
@final
@dataclass(frozen=True)
class Default(Options):
    """Whatever suits the task."""

    def __call__(self, f: Array, context: Context) -> Array | TrustResult:
        """As the rule of the task says."""
        return trust_named(context.task.trust)(f, context)
