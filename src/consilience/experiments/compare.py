"""Methods x seeds on identical splits, with honest intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from consilience.errors import ConsilienceError
from consilience.runtime.callbacks import Callback
from consilience.runtime.history import PLACES
from consilience.settings.settings import Settings
from consilience.tasks.protocol import Array, Score
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its 95 % confidence interval (Student's t; not defined for a single seed)."""

    mean: float
    half_width: float


@dataclass(frozen=True)
class Line:
    """One method in a comparison. Differences are paired: taken seed by seed on the same split and initial models."""

    method: str
    title: str
    """How it is called in text."""
    score: Estimate
    """Mean over the agents with good labels."""
    worst: float
    """The worst of them, mean over seeds."""
    gain: Estimate
    """Over training alone."""
    lead: Estimate
    """Over the first method of the comparison."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison gave."""

    table: "pd.DataFrame"
    """One row per method, seed and agent: the last round."""
    scores: Sequence[Score]
    """Of the task."""
    titles: dict[str, str]
    """How each method is called in text."""

    @property
    def default_score(self) -> str:
        """The task's first score on the target domain."""
        return f"{self.scores[0].name}_target"


def estimate(values: Sequence[float] | Array) -> Estimate:
    """Mean and 95 % interval of independent values, one per seed.

    >>> found = estimate([0.8, 0.9, 1.0])
    >>> round(found.mean, 3), round(found.half_width, 3)
    (0.9, 0.248)
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return Estimate(float(values.mean()), float("nan"))
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return Estimate(float(values.mean()), float(half))


def compare(
    settings: Settings,
    methods: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 0,
    callbacks: Sequence[Callback] = (),
) -> "Comparison":
    """Runs every method with every seed into `folder`/seed-S/METHOD; what is finished there is not run again.

    The table has the last round: one row per method, seed and agent.
    """
    import pandas as pd

    if not methods or not seeds:
        raise ConsilienceError("name at least one method and one seed, such as dynamic and 0.")
    settings = replace(settings, run=replace(settings.run, references=()))
    jobs = [
        Job(
            settings.with_method(method).with_seed(seed),
            folder / f"seed-{seed}" / method,
            method,
            label=f"{method}, seed {seed}",
        )
        for seed in seeds
        for method in methods
    ]
    runs = run_jobs(jobs, workers, callbacks)
    rows = [
        run.last_round().assign(method=job.method, seed=job.settings.run.seed)
        for job, run in zip(jobs, runs, strict=True)
    ]
    titles = {job.method: run.summary.title for job, run in zip(jobs, runs, strict=True)}
    return Comparison(pd.concat(rows, ignore_index=True), runs[0].summary.scores, titles)


def summarise(compared: "Comparison", score: str = "") -> list[Line]:
    """One line per method, in the order they were given, by a column such as accuracy_target."""
    table, column = compared.table, score or compared.default_score
    columns = {f"{one.name}_{place}": one for one in compared.scores for place in PLACES}
    if column not in columns:
        raise ConsilienceError(f"unknown score {column!r}. Known here: {', '.join(columns)}.")
    lower_is_better = not columns[column].higher_is_better
    score = column
    good = table[~(table["low_quality"] | table.get("attacker", False))]
    per_seed = good.pivot_table(index="seed", columns="method", values=score)
    grouped = good.groupby(["method", "seed"])[score]
    worst = (grouped.max() if lower_is_better else grouped.min()).groupby("method").mean()
    methods = list(dict.fromkeys(table["method"]))
    sign = -1 if lower_is_better else 1
    nothing = Estimate(float("nan"), float("nan"))
    lines = []
    for method in methods:
        own = per_seed[method]
        gain = estimate(sign * (own - per_seed["alone"])) if "alone" in per_seed and method != "alone" else nothing
        lead = estimate(sign * (own - per_seed[methods[0]])) if method != methods[0] else nothing
        lines.append(Line(method, compared.titles[method], estimate(own), float(worst[method]), gain, lead))
    return lines


def parse_seeds(text: str, what: str = "seeds") -> list[int]:
    """Seeds, or `what` these numbers are, from a list or a range.

    >>> parse_seeds("0-2"), parse_seeds("3,5")
    ([0, 1, 2], [3, 5])
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConsilienceError(f"{what} {text}: write numbers and ranges, such as 0-4 or 1,3,5.")
        seeds += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(seeds))
