"""How one agent reads rows of any kind as inputs of its network, and what a network may return."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn

from consilience.agents.input_cache import Reader, Transform
from consilience.agents.tensors import HALF_PRECISION, Inputs, called, described, for_network, on, picked, through
from consilience.agents.unreadable import UnreadableRows, different_columns, in_order
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows
from consilience.tasks.protocol import Task


@final
class NetworkInputs:
    """The inputs of a network on `device`, made once for every set of rows.

    Args:
        who: Returns how messages call the agent, whose name may be given later.
        own: The agent's own rows; a table must have their columns.
        label: The column of its labels, if they came from one.
        transform: Converts raw rows to model inputs.
        fixed: A first layer without weights to learn, through which rows pass once; or None.
        device: Where the network is.
    """

    def __init__(
        self,
        who: Callable[[], str],
        own: Rows,
        label: str,
        transform: Transform | None,
        fixed: nn.Module | None,
        device: torch.device,
    ) -> None:
        self._who, self._label, self._transform, self._fixed, self._device = who, label, transform, fixed, device
        self.floats = False
        """Whether whole numbers are read as fractions."""
        self._like = own[:0] if hasattr(own, "columns") and transform is None else None
        self._shared: tuple[Rows, Inputs] | None = None
        self._make_readers()

    def _make_readers(self) -> None:
        self.raw = Reader(self._who(), self._transform, self._on_host, self._raw_way)
        """Inputs of the whole model, on the CPU."""
        self._read = self.raw if self._fixed is None else Reader(self._who(), self._transform, self._features, self.way)

    def __deepcopy__(self, memo: dict[int, Any]) -> "NetworkInputs":
        """The copy of an agent reads as the agent does; what was read is not copied."""
        copied = object.__new__(NetworkInputs)
        memo[id(self)] = copied
        vars(copied).update(vars(self))
        copied._make_readers()
        return copied

    def __call__(self, rows: Rows) -> Inputs:
        """Inputs on the CPU, of what comes after a fixed first layer."""
        inputs: Inputs = self._read(rows)
        return inputs

    def shared(self, rows: Rows) -> Inputs:
        """Inputs for the shared data, on the device; those of the last call are kept."""
        if self._shared is None or self._shared[0] is not rows:
            self._shared = (rows, on(self(rows), self._device))
        return self._shared[1]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the agent's own table; empty for other rows, and where a transform reads them."""
        return () if self._like is None else tuple(map(str, self._like.columns))

    def ordered(self, rows: Rows) -> Rows:
        """A table with its columns in the order of the agent's own; an error for one with other columns."""
        if self._like is None or not hasattr(rows, "columns"):
            return rows
        why = different_columns(rows, self._like, self._label)
        if why:
            raise UnreadableRows(f"{self._who()}: {why}")
        return in_order(rows, self._like)

    def way(self) -> tuple[Any, ...]:
        """What, beside the transform, decides how rows are read: agents with equal ones share what they read."""
        return self._raw_way() if self._fixed is None else (*self._raw_way(), type(self._fixed).__qualname__)

    def _raw_way(self) -> tuple[Any, ...]:
        return "network", self.floats, self.columns

    def _on_host(self, rows: Rows) -> Inputs:
        return for_network(self._who(), self.ordered(rows), self.floats)

    def _features(self, rows: Rows) -> Inputs:
        assert self._fixed is not None
        return on(through(self._fixed, on(self._on_host(rows), self._device)), torch.device("cpu"))


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
