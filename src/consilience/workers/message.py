"""What a worker sends to the first one after a round: one message for each of its agents."""

from dataclasses import asdict, dataclass, field
from typing import Any, final

import numpy as np

from consilience.agents.protocol import Losses
from consilience.methods.protocol import Memory, Record, Round
from consilience.runtime.checkpoint import by_agent, flat
from consilience.runtime.group import Scores
from consilience.tasks.protocol import Array


@final
@dataclass(frozen=True)
class AgentMessage:
    """One agent's part of a round: named arrays."""

    predictions: Array
    """Its predictions on the shared data."""
    sent: Array
    """Bytes that it sent."""
    losses: dict[str, Array]
    """The fields of `Losses`."""
    scores: dict[str, Array] = field(default_factory=dict)
    """By measure."""
    trust: Array | None = None
    """Its row of trust."""
    peers: Array | None = None
    """In sparse exchange: the agents that it heard."""
    by_class: Array | None = None
    """Its trust by class."""
    memory: dict[str, Array] = field(default_factory=dict)
    """What the method keeps for it."""

    def arrays(self) -> dict[str, Array]:
        """All arrays as FIELD/KEY; without a key for fields that are single arrays."""
        fields = {name: value for name, value in vars(self).items() if value is not None}
        return flat({name: value if isinstance(value, dict) else {"": value} for name, value in fields.items()})

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "AgentMessage":
        """The message that `arrays` were made of."""
        fields: dict[str, Any] = {name: values.get("", values) for name, values in by_agent(arrays).items()}
        return cls(**fields)


def messages_of(done: Round, scores: Scores, names: tuple[str, ...]) -> dict[str, AgentMessage]:
    """What one worker, which has the agents `names`, knows of a round."""
    record = done.record
    return {
        name: AgentMessage(
            predictions=record.predictions[name],
            sent=np.array(record.sent[name]),
            losses={key: np.array(value) for key, value in asdict(record.losses[name]).items()},
            scores={key: np.array(value) for key, value in scores[name].items()},
            trust=None if record.trust is None else record.trust[row],
            peers=None if record.peers is None else record.peers[row],
            by_class=record.by_class["trust"][row] if record.by_class else None,
            memory=done.memory.own.get(name, {}),
        )
        for row, name in enumerate(names)
    }


def round_of(done: Round, messages: dict[str, AgentMessage]) -> tuple[Round, Scores]:
    """The whole round and all scores, from the round that one worker saw and the messages of all, by agent."""
    record = done.record

    def stacked(column: str) -> Array:
        return np.stack([getattr(message, column) for message in messages.values()])

    whole = Record(
        predictions={name: message.predictions for name, message in messages.items()},
        losses={
            name: Losses(**{key: value.item() for key, value in message.losses.items()})
            for name, message in messages.items()
        },
        sent={name: int(message.sent) for name, message in messages.items()},
        heard=record.heard,
        trust=None if record.trust is None else stacked("trust"),
        peers=None if record.peers is None else stacked("peers"),
        by_class=record.by_class and record.by_class | {"trust": stacked("by_class")},
    )
    memory = Memory(done.memory.common, {name: m.memory for name, m in messages.items() if m.memory})
    scores = {name: {key: float(value) for key, value in m.scores.items()} for name, m in messages.items()}
    return Round(done.number, whole, memory), scores
