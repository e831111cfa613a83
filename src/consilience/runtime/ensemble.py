"""Collective prediction for new samples, from the trust that a run recorded. The equations are in core/ensemble.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.core.ensemble import (
    collective_by_label,
    collective_by_sample,
    collective_prediction,
    collective_weights,
    filled,
    parts_by_class,
)
from consilience.core.sparse import SparseTrust
from consilience.core.trust import restrict
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array, Task


@final
@dataclass(frozen=True)
class AgentWeights:
    """How far each agent counts in a collective prediction."""

    names: tuple[str, ...]
    all: Array
    """(agents,), sums to one."""
    by_class: Array | None = None
    """(classes, agents) where trust differs by class or label."""

    def of(self, heard: Sequence[str]) -> "AgentWeights":
        """The same among those who were heard."""
        present = np.array([name in heard for name in self.names])
        by_class = None if self.by_class is None else restrict(self.by_class, present)
        names = tuple(name for name in self.names if name in heard)
        return AgentWeights(names, restrict(self.all[None], present)[0], by_class)


def shared_weights(names: Sequence[str], trust: Array, by_class: Array | None) -> AgentWeights:
    """Of everyone together: the consensus distribution of the last `trust` (agents, agents), uniform without any.

    `by_class` is trust by class (agents, agents, classes).
    """
    if not len(trust):
        return AgentWeights(tuple(names), np.full(len(names), 1 / len(names)))
    pi = collective_weights(trust)
    if by_class is None:
        return AgentWeights(tuple(names), pi)
    return AgentWeights(
        tuple(names), pi, filled(pi, np.stack([collective_weights(w) for w in np.moveaxis(by_class, 2, 0)]))
    )


def own_weights(names: Sequence[str], row: Array, by_class: Array | None) -> AgentWeights:
    """Of one agent: its own row of trust (agents,), and by class (agents, classes). So its pseudo-labels are made."""
    return AgentWeights(tuple(names), row, None if by_class is None else filled(row, by_class.T))


def weights_of(run: Run, agent: str = "") -> AgentWeights:
    """The weights that the last trust of a run gives: of all together, or as the one called `agent` trusts."""
    if run.sparse is not None and not len(run.trust):
        return _sparse_weights(run.names, run.sparse, agent)
    by_class = run.by_class.get("trust")
    local = run.names if len(run.trust) and run.trust.shape[1] == len(run.names) else local_agents(run)
    last = run.trust[-1] if len(run.trust) else run.trust
    if not agent:
        if len(local) < len(run.names) and len(run.trust):
            raise ConsilienceError("only the trust of this site is known here; name the agent as which to predict.")
        return shared_weights(run.names, last, by_class)
    if agent not in local:
        raise ConsilienceError(f"there is no trust of an agent {agent!r} here. There is that of {', '.join(local)}.")
    if not len(run.trust):
        return shared_weights(run.names, last, None)
    row = local.index(agent)
    return own_weights(run.names, last[row], None if by_class is None else by_class[row])


def _sparse_weights(names: list[str], trust: SparseTrust, agent: str) -> AgentWeights:
    """The same where agents heard some peers only."""
    if not agent:
        return AgentWeights(tuple(names), trust.stationary(-1))
    if agent not in names:
        raise ConsilienceError(f"there is no agent {agent!r}.")
    row, index = np.zeros(len(names)), names.index(agent)
    row[trust.peers[-1, index]] = trust.weights[-1, index]
    return AgentWeights(tuple(names), row)


def local_agents(run: Run) -> list[str]:
    """The agents of which this process recorded the rounds."""
    return list(dict.fromkeys(run.metrics["agent"]))


@final
@dataclass(frozen=True)
class Collective:
    """What all agents together say of some samples. `np.asarray` of it is its predictions."""

    predictions: Array
    """(samples, outputs)."""
    parts: Array
    """(samples, agents): how far each agent counts for each sample. For several labels the mean over them."""
    by_agent: dict[str, Array]
    """What each agent says by itself (samples, outputs)."""

    @property
    def names(self) -> list[str]:
        """Agents in the order of `parts`."""
        return list(self.by_agent)

    def __len__(self) -> int:
        return len(self.predictions)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.asarray(self.predictions, dtype=dtype)


def collective(weights: AgentWeights, by_agent: dict[str, Array], task: Task) -> Collective:
    """The predictions of those who were heard, mixed by `weights`, which are of the same agents in any order."""
    weights = weights.of(list(by_agent))
    by_agent = {name: by_agent[name] for name in weights.names}
    f = np.stack(list(by_agent.values()))
    parts = np.tile(weights.all, (f.shape[1], 1))
    if weights.by_class is None:
        return Collective(collective_prediction(weights.all, f), parts, by_agent)
    if task.has_classes:
        parts = parts_by_class(weights.all, weights.by_class, f)
        return Collective(collective_by_sample(parts, f), parts, by_agent)
    parts = np.tile(weights.by_class.mean(axis=0), (f.shape[1], 1))
    return Collective(collective_by_label(weights.by_class, f), parts, by_agent)
