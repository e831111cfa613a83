"""Trust: by which rule, and in which rounds it is computed."""

from dataclasses import dataclass
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.base.errors import ConsilienceError
from consilience.methods.trust.protocol import Context, Trust, TrustResult, apply_rule
from consilience.tasks.protocol import Array

SCHEDULES = r"dynamic|static|every-[1-9]\d*"


@final
@dataclass(frozen=True)
class View:
    """The predictions that some agents of this process received, from which they compute trust."""

    agents: tuple[str, ...]
    """Agents of this process that received them."""
    names: tuple[str, ...]
    """Agents that made the predictions."""
    f: Array
    """(names, samples, outputs)."""
    alone: bool = False
    """Whether no other process has this view, so that only the rows of `agents` are needed."""


@final
@dataclass(frozen=True)
class Mixing:
    """Trust w by `rule` from predictions f, in the rounds of the `schedule`."""

    rule: Trust
    schedule: str = "dynamic"
    warmup: int = 0

    @property
    def period(self) -> int:
        """Rounds from one trust matrix to the next: 1 for dynamic, K for every-K, 0 for static."""
        return {"dynamic": 1, "static": 0}[self.schedule] if "-" not in self.schedule else int(self.schedule[6:])

    def is_due(self, t: int) -> bool:
        """Whether trust is computed in round t. The first exchange is in the round after the warm-up."""
        return self.period > 0 and (t - self.warmup - 1) % self.period == 0

    def trust_and_labels(self, view: View, agents: LocalAgents, t: int, memory: dict[str, Array]) -> TrustResult:
        """The rule's result for a view and the rule's `memory`: trust w (names, names), perhaps pseudo-labels."""
        rows = np.array([view.names.index(name) for name in view.agents], dtype=np.intp)
        noise = {agent.name: agent.noise for agent in agents}
        noises = np.array([noise.get(name, np.nan) for name in view.names])
        result = apply_rule(
            self.rule, view.f, Context(agents.first.task, view.names, rows, noises, t, memory, view.alone)
        )
        if result.labels is not None and self.period != 1:
            raise ConsilienceError(
                f"this trust rule makes pseudo-labels of its own in every round, so that trust cannot be kept. Use the "
                f"schedule dynamic instead of {self.schedule}, or a rule that makes one matrix, such as paper."
            )
        return result
