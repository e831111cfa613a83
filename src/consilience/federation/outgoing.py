"""The owner's filter: what of a site's predictions may leave it, as its site.toml says."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option
from consilience.runtime.privacy_budget import mechanism_of
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class Outgoing(Options):
    """What every outgoing frame and every answer passes through."""

    classes: int = option(
        0, "of each row only the most probable classes, so many; the others share the rest evenly; 0 = all", at_least=0
    )
    decimals: int = option(0, "digits after the point to which predictions are rounded; 0 = all", at_least=0, below=8)
    epsilon: float = option(
        0.0, "predictions leave only while the privacy ledger shows at most this epsilon; 0 = always", at_least=0
    )

    def check(self, task: str) -> None:
        """Refuses `classes` where rows are not probabilities of classes."""
        if self.classes and task != "classification":
            raise ConsilienceError(f"site.toml: `outgoing.classes` is for classification, and the task is {task}.")

    def reduced(self, f: Array, task: str = "classification") -> Array:
        """Predictions (samples, outputs) of a task as they may leave.

        >>> Outgoing(classes=2, decimals=1).reduced(np.array([[0.62, 0.28, 0.07, 0.03]])).tolist()
        [[0.6000000238418579, 0.30000001192092896, 0.05000000074505806, 0.05000000074505806]]
        """
        if not self.classes and not self.decimals:
            return f
        f = f.astype(np.float64)
        if not 0 < self.classes < f.shape[1]:
            rounded = f.round(self.decimals) if self.decimals else f
            return (_normalised(rounded) if task == "classification" else rounded).astype(np.float32)
        kept = np.argsort(-f, axis=1, kind="stable")[:, : self.classes]
        values = np.take_along_axis(f, kept, axis=1)
        values = values.round(self.decimals) if self.decimals else values
        rest = (1 - values.sum(axis=1, keepdims=True)) / (f.shape[1] - self.classes)
        reduced = np.broadcast_to(np.clip(rest, 0, values.min(axis=1, keepdims=True)), f.shape).copy()
        np.put_along_axis(reduced, kept, values, axis=1)
        return _normalised(reduced).astype(np.float32)

    def check_spent(self, spent: float | None) -> None:
        """Refuses to let anything out when more than `epsilon` is spent; `spent` is None where nothing is promised."""
        if not self.epsilon:
            return
        if spent is None:
            raise ConsilienceError(
                f"site.toml lets predictions out only up to epsilon {self.epsilon:g} (`outgoing.epsilon`), but the "
                "agent is not private. Set `privacy.epsilon`, or leave `outgoing.epsilon` out."
            )
        if spent > self.epsilon:
            raise ConsilienceError(
                f"nothing more leaves this site: epsilon {spent:.3f} is spent on its private rows, and site.toml lets "
                f"predictions out up to {self.epsilon:g} (`outgoing.epsilon`). Finished rounds are saved."
            )

    def release(self, agent: Agent) -> Callable[[Array], Array]:
        """What turns the agent's predictions into those that leave; an error when nothing may leave any more."""
        self.check(agent.task.name)

        def released(f: Array) -> Array:
            mechanism = mechanism_of(agent)
            self.check_spent(mechanism.record() if mechanism else None)
            return self.reduced(f, agent.task.name)

        return released


def _normalised(f: Array) -> Array:
    """Rows that sum to one; even ones where nothing is left."""
    total = f.sum(axis=1, keepdims=True)
    return np.where(total > 0, f / np.where(total > 0, total, 1), 1 / f.shape[1])
