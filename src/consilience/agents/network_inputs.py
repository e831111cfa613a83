"""How one agent reads rows of any kind as inputs of its network."""

from collections.abc import Callable
from typing import Any, final

import torch
from torch import nn

from consilience.agents.input_cache import Reader, Transform
from consilience.agents.tensors import Inputs, for_network, on, through
from consilience.agents.unreadable import UnreadableRows, different_columns, in_order
from consilience.base.rows import Rows


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
