"""What consensus keeps from round to round. In a checkpoint it is arrays by name."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from consilience.methods.protocol import Memory
from consilience.tasks.protocol import Array

_RULE = "rule/"


@final
@dataclass(frozen=True)
class AgentMemory:
    """What one agent keeps."""

    trust: Array | None = None
    """Its last row of trust: in all agents of the roster, NaN where it is unknown, or in its `peers`."""
    peers: NDArray[np.integer] | None = None
    """In sparse exchange: the agents whom it heard last, as indices in the roster."""
    duals: Array | None = None
    """Dual variables (samples, outputs)."""
    rule: dict[str, Array] = field(default_factory=dict)
    """What the trust rule keeps for this agent alone, if it judges by other predictions than the others do."""

    @property
    def kinds(self) -> set[str]:
        """What there is, beside what the rule keeps."""
        kinds: tuple[str, ...] = ("trust", "peers", "duals")
        return {kind for kind in kinds if getattr(self, kind) is not None}


@final
@dataclass(frozen=True)
class ConsensusMemory:
    """What all agents of this process keep."""

    rule: dict[str, Array] = field(default_factory=dict)
    """What the trust rule keeps; the same in every process."""
    agents: dict[str, AgentMemory] = field(default_factory=dict)

    def of(self, name: str) -> AgentMemory:
        """What this agent keeps; nothing before its first exchange."""
        return self.agents.get(name, AgentMemory())

    def packed(self) -> Memory:
        """As a checkpoint has it."""
        own = dict[str, dict[str, Array]]()
        for name, kept in self.agents.items():
            own[name] = {kind: getattr(kept, kind) for kind in sorted(kept.kinds)}
            own[name] |= {f"{_RULE}{key}": value for key, value in kept.rule.items()}
        return Memory(self.rule, own)

    @classmethod
    def unpacked(cls, memory: Memory) -> "ConsensusMemory":
        """From what `packed` gave."""
        agents = {}
        for name, arrays in memory.own.items():
            rule = {key.removeprefix(_RULE): value for key, value in arrays.items() if key.startswith(_RULE)}
            known = {key: arrays[key] for key in ("trust", "peers", "duals") if key in arrays}
            agents[name] = AgentMemory(**known, rule=rule)
        return cls(memory.common, agents)
