"""Optimizers: what an agent needs of one, Adam for one model and for many stacked ones.

Adam (Kingma and Ba, 2015) is the same to the bit as `torch.optim.Adam` on a CPU, which imports torch's compiler when it
is made: two seconds at the start of every run.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any, Protocol, final

import numpy as np
import torch
from torch import Tensor, nn

from consilience.agents.tensors import single_precision
from consilience.base.options import stable_text
from consilience.tasks.protocol import Array

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


@lru_cache(maxsize=1000)
def step_sizes(step: int, lr: float) -> tuple[float, float]:
    """The step size lr / (1 - beta1^t), and sqrt(1 - beta2^t), by which the root of the second moment is divided."""
    return lr / (1 - BETA1**step), sqrt(1 - BETA2**step)


def adam_step(
    weight: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    size: float | Tensor,
    root: float | Tensor,
    room: tuple[Tensor | None, Tensor | None] = (None, None),
) -> None:
    """One step in place: w <- w - size m / (sqrt(v) / root + eps), after m and v took in the gradient.

    `size` and `root` are `step_sizes`, or tensors of them with one row for each of many stacked models. `room` are two
    tensors of the shape of the gradient that may be overwritten; one may be the gradient.
    """
    first.lerp_(gradient, 1 - BETA1)
    second.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
    below = torch.sqrt(second, out=room[0]).div_(root).add_(EPSILON)
    weight.sub_(torch.mul(first, size, out=room[1]).div_(below))


@dataclass
class Moments:
    """What Adam keeps of one parameter."""

    steps: int
    first: Tensor
    second: Tensor


@final
class Adam:
    """The optimizer of one model, with the methods of torch's optimizers that agents use.

    Moments of weights in half precision are in single precision: in half, the squares of most gradients are 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": lr}]
        self.moments: dict[int, Moments] = {}
        """By number of the parameter; empty before the first step."""

    @property
    def parameters(self) -> list[nn.Parameter]:
        """What is trained, in the order of the model."""
        parameters: list[nn.Parameter] = self.param_groups[0]["params"]
        return parameters

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Moves every parameter that has a gradient."""
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                if number not in self.moments:
                    zero = single_precision(torch.zeros_like(parameter))
                    self.moments[number] = Moments(0, zero, zero.clone())
                moments = self.moments[number]
                moments.steps += 1
                size, root = step_sizes(moments.steps, self.param_groups[0]["lr"])
                gradient = single_precision(parameter.grad)
                adam_step(parameter, gradient, moments.first, moments.second, size, root)

    def state_dict(self) -> dict[str, Any]:
        """The moments under the names that torch uses."""
        state = {
            number: {"step": torch.tensor(float(moments.steps)), "exp_avg": moments.first, "exp_avg_sq": moments.second}
            for number, moments in self.moments.items()
        }
        return {"state": state, "param_groups": self.param_groups}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restores what `state_dict` returned, on the device of the parameters."""
        beside = self.parameters
        self.moments = {
            number: Moments(
                int(slots["step"]),
                slots["exp_avg"].to(beside[number].device),
                slots["exp_avg_sq"].to(beside[number].device),
            )
            for number, slots in saved["state"].items()
        }


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
