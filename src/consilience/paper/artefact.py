"""Artefacts: tables and figures of the paper, each with its runs, table, check and drawing."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, final

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


Key = TypeVar("Key", bound=Hashable)


def score_of(dataset: str) -> str:
    """The paper's score on X*: balanced accuracy for Fed-ISIC2019, accuracy otherwise."""
    return "balanced_accuracy_shared" if dataset == "fed-isic2019" else "accuracy_shared"


def mean_score(run: Run, dataset: str) -> float:
    """Mean over the agents with good labels after the last round."""
    table = run.last_round()
    return float(table[~table["low_quality"]][score_of(dataset)].mean())


def intervals(scores: Mapping[Key, Sequence[float]]) -> dict[Key, tuple[float, float]]:
    """Mean and half-width of the 95 % interval over seeds, NaN for a single seed."""
    from consilience.experiments.compare import estimate

    estimates = {key: estimate(values) for key, values in scores.items()}
    return {key: (estimated.mean, estimated.half_width) for key, estimated in estimates.items()}


def marked_agents(run: Run) -> list[int]:
    """Agents with wrong labels or a weak model, by number."""
    weak = len({agent.model for agent in run.summary.agents}) > 1
    agents = enumerate(run.summary.agents)
    return [n for n, agent in agents if agent.low_quality or (weak and agent.model == "linear")]
