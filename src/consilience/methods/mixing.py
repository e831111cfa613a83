"""How agents judge their peers, and when: a trust rule and a schedule."""

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
    """Predictions by which agents of this process judge: as everyone has them, or as some were told them alone."""

    agents: tuple[str, ...]
    """Those of this process who judge by them."""
    names: tuple[str, ...]
    """Whose predictions they are."""
    f: Array
    """(names, samples, outputs)."""
    alone: bool = False
    """Whether nobody else judges by them, so that only the rows of `agents` need be right."""


@final
@dataclass(frozen=True)
class Mixing:
    """Trust w by `rule` from predictions f, made in the rounds that the `schedule` names."""

    rule: Trust
    schedule: str = "dynamic"
    warmup: int = 0

    @property
    def period(self) -> int:
        """Rounds from one trust matrix to the next: 1 for dynamic, K for every-K; 0 for static, which makes one."""
        return {"dynamic": 1, "static": 0}[self.schedule] if "-" not in self.schedule else int(self.schedule[6:])

    def is_due(self, t: int) -> bool:
        """Whether the schedule asks for new trust in round t. The first exchange follows on the warm-up."""
        return self.period > 0 and (t - self.warmup - 1) % self.period == 0

    def judge(self, view: View, agents: LocalAgents, t: int, memory: dict[str, Array]) -> TrustResult:
        """What the rule makes of a view, given what it kept: trust w (names, names), and perhaps pseudo-labels."""
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
