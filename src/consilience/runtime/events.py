"""What a run reports while it is under way."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Started:
    """The run has begun."""

    agents_by_worker: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Trained:
    """An agent has trained in the round that is under way."""

    agent: str
    worker: int


@dataclass(frozen=True)
class Finished:
    """A round has ended, and is saved."""

    number: int
    means: dict[str, float]
    """Over agents, of every measure."""


Event = Started | Trained | Finished
