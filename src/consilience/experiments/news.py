"""What is told of a run while it is under way."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Started:
    """The run has begun."""

    holders: tuple[tuple[str, ...], ...]
    """The agents of each worker."""


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


News = Started | Trained | Finished
