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
        weights, first, second, gradient = rows = torch.zeros((4, len(agents), total))
        size, root = np.ones((steps[0], len(agents), 1), np.float32), np.ones((steps[0], len(agents), 1), np.float32)
        for row_index, agent in enumerate(agents):
            optimizer = _adam(agent)
            done = 0
            for number, parameter in enumerate(optimizer.parameters):
                values = [parameter.detach()]
                if number in optimizer.moments:
                    moments = optimizer.moments[number]
                    values, done = [*values, moments.first, moments.second], moments.steps
                for row, value in zip(rows, values, strict=False):
                    row[row_index, starts[number] : starts[number] + value.numel()] = value.reshape(-1)
            for step in range(steps[row_index]):
                size[step, row_index], root[step, row_index] = step_sizes(done + step + 1, agent.lr)
        sizes, roots = torch.from_numpy(size), torch.from_numpy(root)
        return cls(agents, steps, [*names], shapes, starts, weights, first, second, gradient, sizes, roots)

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
        )

    def give_back(self) -> None:
        """Gives every agent its weights and moments."""
        views = [self.views(rows) for rows in (self.weights, self.first, self.second)]
        for row, (agent, steps) in enumerate(zip(self.agents, self.steps, strict=True)):
            optimizer = _adam(agent)
            for number, parameter in enumerate(optimizer.parameters):
                weight, first, second = (tensors[number][row] for tensors in views)
                parameter.data.copy_(weight)
                parameter.grad = None
                done = optimizer.moments[number].steps if number in optimizer.moments else 0
                optimizer.moments[number] = Moments(done + steps, first.clone(), second.clone())


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
