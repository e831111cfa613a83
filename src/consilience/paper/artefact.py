"""What every table and figure of the paper has: the runs it needs, its table, its check and its drawing."""

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
    """What an artefact gave."""

    sentences: list[str]
    """Which part of the expectation holds."""
    written: list[Path]
    table: "pd.DataFrame | None" = None
    """What is worth showing on screen; the CSV is among `written` in any case."""
    caveat: str = ""
    """What to know before the sentences are believed."""


class Artefact(Protocol):
    """A table or figure of the paper. Whoever makes it runs its jobs, if it has any, and lets it finish."""

    @property
    def name(self) -> str:
        """How it is called on the command line; its files are NAME.csv, NAME.png and NAME.svg."""

    @property
    def title(self) -> str:
        """What it is called in the paper, and what it shows."""

    @property
    def expectation(self) -> str:
        """Written before the run: what the paper says, as something that can fail. Empty where it claims nothing."""

    def jobs(self, scale: str, seeds: Sequence[int], folder: Path) -> list[Job]:
        """The runs it needs, which other artefacts may need as well; none for a toy."""

    def finish(self, runs: Runs, scale: str, seeds: Sequence[int], folder: Path) -> Outcome:
        """Makes its table, checks it and draws it, from finished runs in the order of its jobs."""


@final
@dataclass(frozen=True)
class FromRuns:
    """An artefact that is made from runs on real images."""

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
    """How a sentence says whether something holds."""
    return "holds" if holds else "does not hold"


def write_csv(table: "pd.DataFrame", path: Path) -> Path:
    """Writes a table without its index and returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)
    return path
