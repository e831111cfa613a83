"""Values instead of classes. Agents say how noisy their own labels are, and trust is measured in that unit."""

from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.core import bootstrap, metrics
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array, Score

if TYPE_CHECKING:
    from torch import Tensor


@final
class Regression:
    """dist(f, psi) = |f - psi|^2."""

    name = "regression"
    trust = "gaussian"
    sums_to_one = False
    noisy = True
    has_classes = False
    named_outputs = False
    scale = "values"
    outputs_are = "outputs"
    scores = (Score("rmse", "error (RMSE)", metrics.rmse, False, bootstrap.RMSE),)

    def labels(self, y: Array) -> Array:
        """Values (samples, outputs) in float32."""
        try:
            values = y.astype(np.float32).reshape(len(y), -1)
        except (TypeError, ValueError) as error:
            raise ConsilienceError(f"labels must be numbers (got {y.dtype}): {error}.") from None
        if not np.isfinite(values).all():
            raise ConsilienceError("some training values are not finite. Remove those samples.")
        return values

    def outputs(self, y: Array) -> int:
        """The columns."""
        return int(y.shape[1])

    def counts(self, y: Array) -> list[int]:
        """There are no classes."""
        return []

    def problem(self, f: Array) -> tuple[NDArray[np.bool_], str]:
        """Any finite value will do."""
        return np.zeros(len(f), dtype=bool), ""

    def targets(self, y: Array, outputs: int) -> Array:
        """The values."""
        return y

    def distance(self, f: Array, psi: Array) -> float:
        """Mean over samples of |f - psi|^2."""
        return metrics.squared_distance(f, psi)

    def probabilities(self, f: Array) -> Array | None:
        """Values are none."""
        return None

    def questions(self, targets: Array) -> list[Array]:
        """One, about all values."""
        return [targets]

    def question_count(self, outputs: int) -> int:
        """One."""
        return 1

    def question_classes(self, outputs: int) -> int:
        """None: values."""
        return 0

    def join(self, answers: list[Array]) -> Array:
        """The answer itself."""
        return answers[0]

    def predictions(self, out: "Tensor") -> "Tensor":
        """What the network returns."""
        return out

    def loss(self, out: "Tensor", target: "Tensor") -> "Tensor":
        """Mean over samples of the squared distance."""
        return (out - target).square().sum(dim=1).mean()

    def stacked_loss(self, out: "Tensor", target: "Tensor") -> "tuple[Tensor, Tensor]":
        """The squared distance, whose gradient is 2 (out - target)."""
        back = out - target
        return back.square().sum(dim=2), back * 2


TASKS.add("regression")(Regression())
