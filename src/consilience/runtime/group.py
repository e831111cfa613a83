"""The processes of one run, as the driver sees them."""

import json
from collections.abc import Mapping
from typing import Any, Protocol, final

import numpy as np

from consilience.methods.protocol import Round
from consilience.tasks.protocol import Array

Scores = dict[str, dict[str, float]]
"""By agent, then by measure."""


class Group(Protocol):
    """The workers of one run. The first one records it."""

    number: int
    """The index of this process among them."""
    first: bool
    """Whether this process records the run."""
    agents_by_worker: tuple[tuple[str, ...], ...]
    """Which worker trains which agents; empty if there is one process."""

    def complete(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """In the first process a round and its scores with those of all processes; in the others without trust."""

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The arrays of all processes in the first; nothing in the others."""

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The first process's arrays, in all of them."""


@final
class OneProcess:
    """A single process knows everything."""

    number, first = 0, True
    agents_by_worker: tuple[tuple[str, ...], ...] = ()

    def complete(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """As they are."""
        return done, scores

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """As they are."""
        return arrays

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """As they are."""
        return arrays


def tables_to_first(group: Group, tables: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values by agent: those of all processes in the first; nothing in the others."""
    texts = {name: np.frombuffer(json.dumps(table).encode(), np.uint8) for name, table in tables.items()}
    return {name: json.loads(text.tobytes()) for name, text in group.to_first(texts).items()}
