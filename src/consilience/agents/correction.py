"""A change of gradients that one agent applies to its tensors, or many agents to stacked ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from consilience.agents.protocol import Weights
from consilience.tasks.protocol import Array


@final
@dataclass
class GradientCorrection:
    """g <- rule(g, y, x, common, own) before every optimizer step; a `Correction` of one agent in one round.

    Args:
        rule: The gradient to use, given the gradient g, its tensor y, and the three tensors of the same name below.
        x: The server's model.
        common: State of the server.
        own: State of the agent.
        elementwise: Whether `rule` treats every number by itself, so that one call can serve many stacked models.
        keeps_sums: Whether the gradients are added up in `sums`.
    """

    rule: Callable[[Any, Any, Any, Any, Any], Any]
    x: Weights
    common: Weights = field(default_factory=dict)
    own: Weights = field(default_factory=dict)
    elementwise: bool = False
    keeps_sums: bool = False
    sums: dict[str, Any] = field(default_factory=dict)
    """Sum of the agent's gradients before they are changed, by parameter."""

    def __post_init__(self) -> None:
        self._tensors: dict[str, tuple[Any, ...]] = {}

    def __call__(self, name: str, g: Any, y: Any) -> Any:
        """The gradient to use for the named tensor."""
        if name not in self._tensors:
            parts = (self.x, self.common, self.own)
            self._tensors[name] = tuple(_like(y, weights[name]) if name in weights else None for weights in parts)
        if self.keeps_sums:
            self.sums[name] = self.sums[name] + g if name in self.sums else g
        return self.rule(g, y, *self._tensors[name])


def _like(tensor: Any, array: Array) -> Any:
    """`array` as a tensor of the type and on the device of `tensor`, which may be an array as well."""
    if not hasattr(tensor, "detach"):
        return array
    import torch

    return torch.from_numpy(array).to(tensor)
