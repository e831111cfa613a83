"""What a network returns: logits or values, one row per sample."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn

from consilience.agents.tensors import HALF_PRECISION, Inputs, called, described, picked
from consilience.base.errors import ConsilienceError
from consilience.tasks.protocol import Task


def first_output(who: str, model: nn.Module, x: Inputs) -> tuple[Tensor, bool]:
    """The output for the first sample, and whether the model takes its whole numbers as fractions.

    Whole numbers may be indices of an embedding or values: which of them the model takes is tried.
    """
    model.eval()
    try:
        with torch.inference_mode():
            out = called(model, picked(x, slice(0, 1)))
    except Exception as error:
        if isinstance(x, Tensor) and not x.is_floating_point():
            return first_output(who, model, x.float())[0], True
        half = [weight.dtype for weight in model.parameters() if weight.dtype in HALF_PRECISION]
        if half and "dtype" in str(error):
            advice = (
                f"Its weights are {str(half[0])[6:]}, and samples come in single precision: give model.float(), or "
                "convert the samples in its forward."
            )
        else:
            advice = "Give the agent a transform that makes what the model takes."
        raise ConsilienceError(f"{who}: the model cannot read a sample ({described(x)}): {error}. {advice}") from error
    if not isinstance(out, Tensor) or out.ndim != 2:
        raise ConsilienceError(
            f"{who}: the model must return one row per sample, (samples, outputs); got "
            f"{tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__}."
        )
    return out, False


@final
class LogitsCheck:
    """Refuses a model that ends in softmax: with a second one on top it hardly learns.

    Outputs are probabilities if all are at least 0 and every row sums to one, unless all rows are the same, or the task
    takes them as they are.
    """

    def __init__(self, who: Callable[[], str], task: Task) -> None:
        self._who, self._task = who, task
        self.undecided = task.sums_to_one
        """Whether all outputs so far may be probabilities."""

    def __call__(self, out: Tensor) -> None:
        """Raises an error if these outputs (samples, outputs) are probabilities."""
        if not self.undecided or not len(out):
            return
        rows = out.float()
        self.undecided = (
            rows.shape[1] > 1 and bool((rows >= 0).all()) and bool(((rows.sum(dim=1) - 1).abs() <= 1e-4).all())
        )
        if self.undecided and bool((rows != rows[0]).any()):
            if torch.allclose(self._task.predictions(out).float(), rows, atol=1e-4):
                return
            raise ConsilienceError(
                f"{self._who()}: its model returns probabilities (every row is at least 0 and sums to one), and it "
                "must return logits: softmax would be taken twice, and it would hardly learn. Leave out the softmax "
                "at its end."
            )
