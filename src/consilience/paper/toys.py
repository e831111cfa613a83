"""Toy experiments of the paper: they take seconds, need no runs, and are the same at every scale.

Rounds count collaboration only: in round 0 agents have trained on their private data alone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, final

import numpy as np

from consilience.agents.protocol import Agent
from consilience.methods.protocol import Method
from consilience.paper.artefact import Outcome, Runs, verdict, write_csv
from consilience.runtime.callbacks import Event, Finished
from consilience.runtime.driver import run_rounds
from consilience.runtime.exchange import InMemory
from consilience.runtime.summary import Summary
from consilience.tasks.protocol import Array
from consilience.workers.job import Job

Found = Mapping[str, tuple[Any, str]]
"""By the name of an expectation: whether it holds, and the numbers that decided."""


@dataclass(frozen=True)
class Claim:
    """One expectation, whether it holds, and the numbers that decided."""

    name: str
    expectation: str
    holds: bool
    measured: str


class ToyResult(Protocol):
    """The result of a toy experiment: at least its claims."""

    @property
    def claims(self) -> list[Claim]:
        """Every expectation, judged."""


Data = TypeVar("Data", bound=ToyResult)


@final
@dataclass(frozen=True)
class Toy(Generic[Data]):
    """An artefact that is computed without runs."""

    name: str
    title: str
    expectation: str
    compute: Callable[[int], Data]
    """The result for a seed."""
    draw: Callable[[Data, Path], Iterable[Path]]

    def jobs(self, scale: str, seeds: Sequence[int], folder: Path) -> list[Job]:
        """None."""
        return []

    def finish(self, runs: Runs, scale: str, seeds: Sequence[int], folder: Path) -> Outcome:
        """The claims for the first seed, also as a CSV, and the figure."""
        import pandas as pd

        data = self.compute(seeds[0])
        table = pd.DataFrame([(c.name, c.expectation, c.holds, c.measured) for c in data.claims])
        table.columns = pd.Index(["claim", "expectation", "holds", "measured"])
        written = write_csv(table, folder / f"{self.name}.csv")
        sentences = [f"{c.expectation} {verdict(c.holds)}: {c.measured}" for c in data.claims]
        return Outcome(sentences, [written, *self.draw(data, folder / self.name)])


def watch(
    agents: Sequence[Agent], shared: Array, method: Method, warmup: int, points: Array, keep: Collection[int]
) -> tuple[dict[int, Array], Array]:
    """Predictions (agents, points, outputs) after the rounds to `keep`, counted after the warm-up, and the trust."""
    seen: dict[int, Array] = {}

    def look(event: Event) -> None:
        if isinstance(event, Finished) and event.number - warmup in keep:
            seen[event.number - warmup] = np.stack([agent.predict(points) for agent in agents])

    exchange = InMemory(tuple(agent.name for agent in agents))
    summary = Summary(method.label, method.title, agents[0].task.name, warmup + max(keep), warmup, len(shared))
    run = run_rounds(agents, shared, exchange, method, summary, emit=look)
    return seen, run.trust


def judged(expectations: Mapping[str, str], results: Found) -> list[Claim]:
    """Every expectation with its result."""
    return [Claim(name, text, bool(results[name][0]), results[name][1]) for name, text in expectations.items()]


def told(**numbers: Any) -> str:
    """Names and their numbers.

    >>> told(alone=[0.91, 0.93], in_all=2)
    'alone 0.91 0.93, in all 2'
    """
    parts = (" ".join(f"{value:.4g}" for value in np.ravel(values)) for values in numbers.values())
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in zip(numbers, parts, strict=True))
