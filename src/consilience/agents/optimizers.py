"""What an agent needs of an optimizer, and its state as arrays, for checkpoints."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from consilience.base.options import stable_text
from consilience.tasks.protocol import Array


class Optimizer(Protocol):
    """What an agent needs of an optimizer; all of torch's have it."""

    param_groups: list[dict[str, Any]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients."""

    def step(self) -> Any:
        """Moves the parameters."""

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on from later, the tensors by parameter under `state`."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""


MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]


def optimizer_arrays(optimizer: Optimizer) -> dict[str, Array]:
    """Its state, by parameter and slot."""
    return {
        f"optimizer.{index}.{slot}": as_numpy(torch.as_tensor(value))
        for index, slots in optimizer.state_dict()["state"].items()
        for slot, value in slots.items()
        if value is not None
    }


def restore_optimizer(optimizer: Optimizer, arrays: dict[str, Array]) -> None:
    """Restores what `optimizer_arrays` returned, among other arrays."""
    slots: dict[int, dict[str, Tensor]] = {}
    for key, value in arrays.items():
        if key.startswith("optimizer."):
            _, index, slot = key.split(".", 2)
            slots.setdefault(int(index), {})[slot] = torch.from_numpy(value.copy())
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": slots, "param_groups": groups})


def optimizer_text(optimizer: Optimizer) -> str:
    """Its class and its options, such as Adam lr=0.005; those of every group of parameters, where there are several."""
    groups = [
        " ".join(f"{key}={stable_text(value)}" for key, value in group.items() if key != "params")
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__qualname__} {'; '.join(groups)}"


def as_numpy(tensor: Tensor) -> Array:
    """A copy as an array; what NumPy has no type for in single precision."""
    tensor = tensor.detach().cpu()
    array: Any = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return np.array(array)
