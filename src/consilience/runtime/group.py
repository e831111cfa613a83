"""The processes of one run, as the driver sees them. A run in one process needs nobody else."""

from typing import Protocol, final

from consilience.methods.protocol import Round
from consilience.tasks.protocol import Array

Scores = dict[str, dict[str, float]]
"""By agent, then by measure."""


class Group(Protocol):
    """The workers of one run. The first one records it."""

    number: int
    """This process's place among them."""
    first: bool
    """Whether this process records the run."""
    agents_by_worker: tuple[tuple[str, ...], ...]
    """Who trains whom; empty where there is one worker."""

    def whole(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """A round and its scores as seen by this process, completed with what the others saw."""

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The arrays of all processes in the first; nothing in the others."""

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The first process's arrays, in all of them."""


@final
class OneProcess:
    """A single process sees everything."""

    number, first = 0, True
    agents_by_worker: tuple[tuple[str, ...], ...] = ()

    def whole(self, done: Round, scores: Scores) -> tuple[Round, Scores]:
        """As they are."""
        return done, scores

    def to_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """As they are."""
        return arrays

    def from_first(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """As they are."""
        return arrays
