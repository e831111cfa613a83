"""The state of consensus from round to round. In a checkpoint it is arrays by name."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from consilience.agents.protocol import with_prefix
from consilience.methods.protocol import Memory
from consilience.tasks.protocol import Array

_RULE, _DEVIATIONS = "rule/", "deviations/"
_KINDS = ("trust", "peers", "duals")


@final
@dataclass(frozen=True)
class AgentMemory:
    """State of one agent."""

    trust: Array | None = None
    """Its last row of trust: over the roster, NaN where unknown, or over its `peers`."""
    peers: NDArray[np.integer] | None = None
    """In sparse exchange: the agents it heard last, as indices in the roster."""
    duals: Array | None = None
    """Dual variables (samples, outputs)."""
    rule: dict[str, Array] = field(default_factory=dict)
    """Memory of the trust rule for this agent alone, if it received other predictions than the others."""
    deviations: dict[str, Array] = field(default_factory=dict)
    """By peer, how far it was from the mean so far, if this agent received other predictions than the others."""

    @property
    def kinds(self) -> set[str]:
        """Names of the arrays that are there, apart from the rule's memory."""
        return {kind for kind in _KINDS if getattr(self, kind) is not None}


@final
@dataclass(frozen=True)
class ConsensusMemory:
    """State of all agents of this process."""

    rule: dict[str, Array] = field(default_factory=dict)
    """Memory of the trust rule; the same in every process."""
    deviations: dict[str, Array] = field(default_factory=dict)
    """How far each agent was from the mean over rounds (`core.duals.add_deviations`); the same in every process."""
    agents: dict[str, AgentMemory] = field(default_factory=dict)

    def of(self, name: str) -> AgentMemory:
        """State of this agent; empty before its first exchange."""
        return self.agents.get(name, AgentMemory())

    def packed(self) -> Memory:
        """As arrays for a checkpoint."""
        own = dict[str, dict[str, Array]]()
        for name, kept in self.agents.items():
            own[name] = {kind: getattr(kept, kind) for kind in sorted(kept.kinds)}
            own[name] |= {f"{_RULE}{key}": value for key, value in kept.rule.items()}
            own[name] |= {f"{_DEVIATIONS}{peer}": value for peer, value in kept.deviations.items()}
        return Memory(self.rule | {f"{_DEVIATIONS}{name}": value for name, value in self.deviations.items()}, own)

    @classmethod
    def unpacked(cls, memory: Memory) -> "ConsensusMemory":
        """The inverse of `packed`."""
        agents = {}
        for name, arrays in memory.own.items():
            known = {key: arrays[key] for key in _KINDS if key in arrays}
            rule, deviations = with_prefix(arrays, _RULE), with_prefix(arrays, _DEVIATIONS)
            agents[name] = AgentMemory(**known, rule=rule, deviations=deviations)
        common = {key: value for key, value in memory.common.items() if not key.startswith(_DEVIATIONS)}
        return cls(common, with_prefix(memory.common, _DEVIATIONS), agents)
