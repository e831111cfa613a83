"""The processes of one run, as the driver sees them. A run in one process needs nobody else."""

from typing import Protocol, final

from consilience.methods.protocol import Round
from consilience.tasks.protocol import Array

Scores = dict[str, dict[str, float]]
"""By agent, then by measure."""


class Group(Protocol):
    """The workers of one run. The first one records it."""

    first: bool
    """Whether this process records the run."""

    def whole(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """A round and its scores as seen by this process, completed with what the others saw."""

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The arrays of all processes in the first; nothing in the others."""

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The first process's arrays, in all of them."""


@final
class OneProcess:
    """A single process sees everything."""

    first = True

    def whole(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """As they are."""
        return done, scores

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """As they are."""
        return arrays

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """As they are."""
        return arrays
