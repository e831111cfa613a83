"""Weights and optimizer state of several agents of one architecture, one row of numbers each."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from consilience.agents.optimizers import Adam, Moments, adam_step, step_sizes
from consilience.agents.protocol import GradientCorrection, Weights
from consilience.agents.torch_agent import TorchAgent

ALIGNED = 32
"""Tensors start at multiples of this, so that the same vector instructions compute every agent's numbers."""


@dataclass(frozen=True)
class StackedWeights:
    """Weights and Adam's moments of several agents; the `steps` of each do not grow from agent to agent."""

    agents: list[TorchAgent]
    steps: list[int]
    names: list[str]
    shapes: list[tuple[int, ...]]
    starts: list[int]
    weights: Tensor
    first: Tensor
    second: Tensor
    gradient: Tensor
    room: Tensor
    """For numbers that are not kept."""
    size: Tensor
    """Adam's step sizes (steps, agents, 1)."""
    root: Tensor

    @classmethod
    def of(cls, agents: list[TorchAgent], steps: list[int]) -> "StackedWeights":
        """Copies of the agents' weights and moments, for this number of `steps` of each."""
        names, parameters = zip(*agents[0].model.named_parameters(), strict=True)
        shapes = [tuple(p.shape) for p in parameters]
        starts, total = [], 0
        for shape in shapes:
            starts.append(total)
            total += -(-prod(shape) // ALIGNED) * ALIGNED
        weights, first, second, gradient, room = torch.zeros((5, len(agents), total))
        size, root = np.ones((2, steps[0], len(agents), 1), np.float32)
        optimizers = [_adam(agent) for agent in agents]
        for row, (agent, optimizer, own) in enumerate(zip(agents, optimizers, steps, strict=True)):
            done = max((moments.steps for moments in optimizer.moments.values()), default=0)
            lr = agent.lr
            sizes = [step_sizes(done + step + 1, lr) for step in range(own)]
            size[:own, row], root[:own, row] = np.array(sizes, np.float32).T[..., None]
        adam = torch.from_numpy(size), torch.from_numpy(root)
        stack = cls(agents, steps, [*names], shapes, starts, weights, first, second, gradient, room, *adam)
        beside = [optimizer.parameters for optimizer in optimizers]
        for number, (weight, mean, square) in enumerate(zip(*map(stack.views, (weights, first, second)), strict=True)):
            torch.stack([own[number].detach() for own in beside], out=weight)
            for row, optimizer in enumerate(optimizers):
                if number in optimizer.moments:
                    mean[row], square[row] = optimizer.moments[number].first, optimizer.moments[number].second
        return stack

    def views(self, rows: Tensor) -> list[Tensor]:
        """The tensors of the model (agents, ...) within `rows` (agents, numbers)."""
        return [
            rows[:, start : start + prod(shape)].view(-1, *shape)
            for start, shape in zip(self.starts, self.shapes, strict=True)
        ]

    def rows_of(self, tensors: Sequence[Weights]) -> Tensor | None:
        """Arrays by name as rows of numbers (len(tensors), numbers); None if there are none."""
        if not tensors[0]:
            return None
        rows = torch.zeros((len(tensors), self.weights.shape[1]))
        for name, view in zip(self.names, self.views(rows), strict=True):
            for row, weights in zip(view, tensors, strict=True):
                row.copy_(torch.from_numpy(weights[name]))
        return rows

    def adam_step(self, step: int, active: int, gradient: Tensor) -> None:
        """The first `active` agents take a step of Adam."""
        adam_step(
            self.weights[:active],
            gradient,
            self.first[:active],
            self.second[:active],
            self.size[step, :active],
            self.root[step, :active],
            (self.room[:active], self.gradient[:active]),
        )

    def give_back(self) -> None:
        """Gives every agent its weights and moments."""
        weights, *moments = (
            zip(*map(Tensor.unbind, self.views(rows)), strict=True) for rows in (self.weights, self.first, self.second)
        )
        for agent, steps, own, first, second in zip(self.agents, self.steps, weights, *moments, strict=True):
            optimizer = _adam(agent)
            for number, parameter in enumerate(optimizer.parameters):
                parameter.data.copy_(own[number])
                parameter.grad = None
                done = optimizer.moments[number].steps if number in optimizer.moments else 0
                optimizer.moments[number] = Moments(done + steps, first[number].clone(), second[number].clone())


class StackedCorrection:
    """`corrections` of the agents of a stack, in their order, as one call of the rule they share."""

    def __init__(self, stack: StackedWeights, corrections: Sequence[GradientCorrection]) -> None:
        first = corrections[0]
        self._stack, self._corrections, self._rule = stack, corrections, first.rule
        self._x, self._common = stack.rows_of([first.x]), stack.rows_of([first.common])
        self._own = stack.rows_of([correction.own for correction in corrections])
        self._sums = torch.zeros_like(stack.gradient) if first.keeps_sums else None

    def __call__(self, active: int) -> Tensor:
        """The gradients (agents, numbers) that the first `active` agents use in this step."""
        gradient, own = self._stack.gradient[:active], None if self._own is None else self._own[:active]
        if self._sums is not None:
            self._sums[:active] += gradient
        corrected: Tensor = self._rule(gradient, self._stack.weights[:active], self._x, self._common, own)
        return corrected

    def give_sums(self) -> None:
        """Gives every correction the sums of its agent's gradients."""
        if self._sums is not None:
            views = self._stack.views(self._sums)
            for row, correction in enumerate(self._corrections):
                correction.sums = {name: view[row] for name, view in zip(self._stack.names, views, strict=True)}


def _adam(agent: TorchAgent) -> Adam:
    assert isinstance(agent.optimizer, Adam)
    return agent.optimizer
