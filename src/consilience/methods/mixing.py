"""Trust and pseudo-labels: by which rule and mean, and in which rounds trust is computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.base.errors import ConsilienceError
from consilience.core.duals import add_deviations, duals_in_hindsight
from consilience.core.labels import geometric_labels, pseudo_labels
from consilience.core.trust_memory import normalised_rows, sample_weights
from consilience.methods.trust.protocol import Context, Trust, TrustResult, apply_rule
from consilience.tasks.protocol import Array, Task

SCHEDULES = r"dynamic|static|every-[1-9]\d*"
MEANS = ("arithmetic", "geometric")


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
    """Trust w by `rule` from predictions f, in the rounds of the `schedule`, and pseudo-labels psi by `mean`."""

    rule: Trust
    schedule: str = "dynamic"
    warmup: int = 0
    mean: str = "arithmetic"
    duals: float = 0.0
    """Step of the dual variables."""
    most_samples: float = 0.0
    """A peer counts by its number of samples, at most this many times the median one; 0 = all count the same."""
    samples: Mapping[str, int] = field(default_factory=dict)
    """Declared private samples, by agent."""

    @property
    def period(self) -> int:
        """Rounds from one trust matrix to the next: 1 for dynamic, K for every-K, 0 for static."""
        return {"dynamic": 1, "static": 0}[self.schedule] if "-" not in self.schedule else int(self.schedule[6:])

    def is_due(self, t: int) -> bool:
        """Whether trust is computed in round t. The first exchange is in the round after the warm-up."""
        return self.period > 0 and (t - self.warmup - 1) % self.period == 0

    def trust_and_labels(self, view: View, agents: LocalAgents, t: int, memory: dict[str, Array]) -> TrustResult:
        """The rule's result for a view and the rule's `memory`: trust w (names, names), perhaps pseudo-labels."""
        task = agents.first.task
        rows = np.array([view.names.index(name) for name in view.agents], dtype=np.intp)
        noise = {agent.name: agent.noise for agent in agents}
        noises = np.array([noise.get(name, np.nan) for name in view.names])
        weights = self._weights(view.names)
        scale = task.scale if self.mean == "geometric" else ""
        context = Context(task, view.names, rows, noises, t, memory, view.alone, weights, scale)
        result = apply_rule(self.rule, view.f, context)
        if result.labels is None:
            return result if weights is None else replace(result, trust=normalised_rows(result.trust * weights))
        if self.period != 1:
            raise ConsilienceError(
                f"this trust rule makes pseudo-labels of its own in every round, so that trust cannot be kept. Use the "
                f"schedule dynamic instead of {self.schedule}, or a rule that makes one matrix, such as paper."
            )
        if (scale or weights is not None) and not getattr(self.rule, "weighs_and_mixes", False):
            raise ConsilienceError(
                "this trust rule makes pseudo-labels of its own, in which neither the geometric mean nor the number of "
                "samples counts. Use mean=arithmetic and most_samples=0, or a rule that weighs peers, such as gate."
            )
        return result

    def labels(self, w: Array, view: View, task: Task) -> Array:
        """psi_i of every row of w, (rows, samples, outputs); they may overwrite `view.f`, which is not needed later."""
        if self.mean == "geometric":
            return geometric_labels(w, view.f, task.scale)
        return pseudo_labels(w, view.f, out=view.f if len(w) == len(view.f) else None)

    @property
    def in_hindsight(self) -> bool:
        """Whether dual variables are those of the present trust, as if it had been that in all rounds."""
        return self.duals > 0 and self.mean == "geometric"

    def deviations(self, view: View, task: Task, before: dict[str, Array]) -> dict[str, Array]:
        """How far each agent was from the mean over rounds; agents that were not heard keep theirs."""
        kept = np.stack([before.get(name, np.zeros_like(view.f[0])) for name in view.names])
        return before | dict(zip(view.names, add_deviations(kept, view.f, self.duals, task.scale), strict=True))

    def hindsight(self, w: Array, view: View, deviations: dict[str, Array]) -> dict[str, Array]:
        """u_i of the agents of the view, by name."""
        u = duals_in_hindsight(np.stack([deviations[name] for name in view.names]), w)
        return {name: u[view.names.index(name)] for name in view.agents}

    def _weights(self, names: tuple[str, ...]) -> Array | None:
        """The share of each agent in the samples of all, as far as they count; None if all count the same."""
        if not self.most_samples:
            return None
        return sample_weights(np.array([self.samples.get(name, np.nan) for name in names]), self.most_samples)
