"""Artefacts: tables and figures of the paper, each with its runs, table, check and drawing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final

from consilience.paper.scales import CAVEATS, job
from consilience.runtime.run import Run
from consilience.workers.job import Job

if TYPE_CHECKING:
    import pandas as pd

Runs = Sequence[tuple[Job, Run]]
Need = tuple[str, str, str]
"""(dataset, variant, method) of a run."""


@final
@dataclass(frozen=True)
class Outcome:
    """The result of an artefact."""

    sentences: list[str]
    """Which parts of the expectation hold."""
    written: list[Path]
    table: "pd.DataFrame | None" = None
    """The table for the screen; its CSV is in `written` anyway."""
    caveat: str = ""
    """A warning about the sentences."""


class Artefact(Protocol):
    """A table or figure of the paper: its jobs are run first, then `finish` is called."""

    @property
    def name(self) -> str:
        """Its name on the command line; its files are NAME.csv, NAME.png and NAME.svg."""

    @property
    def title(self) -> str:
        """Its name in the paper, and what it shows."""

    @property
    def expectation(self) -> str:
        """The paper's claim as a condition that can fail, written before the run; empty without a claim."""

    def jobs(self, scale: str, seeds: Sequence[int], folder: Path) -> list[Job]:
        """Its runs, which artefacts can share; none for a toy."""

    def finish(self, runs: Runs, scale: str, seeds: Sequence[int], folder: Path) -> Outcome:
        """Makes, checks and draws its table from finished runs in the order of its jobs."""


@final
@dataclass(frozen=True)
class FromRuns:
    """An artefact from runs on real images."""

    name: str
    title: str
    expectation: str
    needs: tuple[Need, ...]
    """The runs of one seed."""
    tabulate: Callable[[Runs], "pd.DataFrame"]
    check: Callable[["pd.DataFrame"], list[str]]
    draw: Callable[["pd.DataFrame", Runs, Path], Iterable[Path]]

    def jobs(self, scale: str, seeds: Sequence[int], folder: Path) -> list[Job]:
        """Every need with every seed."""
        return [job(*need, scale, seed, folder) for seed in seeds for need in self.needs]

    def finish(self, runs: Runs, scale: str, seeds: Sequence[int], folder: Path) -> Outcome:
        """The table, also as a CSV, its check, and the figure."""
        table = self.tabulate(runs)
        written = write_csv(table, folder / f"{self.name}.csv")
        drawn = self.draw(table, runs, folder / self.name)
        return Outcome(self.check(table), [written, *drawn], table, CAVEATS.get(scale, ""))


def needs(datasets: Sequence[str], variants: Sequence[str], methods: Sequence[str]) -> tuple[Need, ...]:
    """Every dataset in every variant with every method."""
    return tuple((d, v, m) for d in datasets for v in variants for m in methods)


def verdict(holds: object) -> str:
    """The verdict in a sentence."""
    return "holds" if holds else "does not hold"


def write_csv(table: "pd.DataFrame", path: Path) -> Path:
    """Writes a table without its index and returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)
    return path
