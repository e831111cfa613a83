"""Methods x seeds on identical splits, with honest intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import t as student

from consilience.base.errors import ConsilienceError
from consilience.runtime.callbacks import Callback
from consilience.runtime.history import PLACES
from consilience.runtime.run import Run
from consilience.runtime.summary import Summary
from consilience.settings.presets import settings_of
from consilience.settings.settings import Settings
from consilience.tasks.protocol import Array, Score
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

if TYPE_CHECKING:
    import pandas as pd


PASSED = ("samples_trained", "samples_forward")
"""Columns of the metrics that count the samples passed through the models."""
MOST_SEEDS = 10_000
"""Largest number of seeds in one range."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its 95 % confidence interval (Student's t; not defined for a single seed)."""

    mean: float
    half_width: float

    def text(self, signed: bool = False) -> str:
        """As in tables, such as 0.812 ± 0.020; without an interval the mean alone."""
        interval = "" if np.isnan(self.half_width) else f" ± {self.half_width:.3f}"
        return f"{self.mean:{'+' if signed else ''}.3f}{interval}"


@dataclass(frozen=True)
class ComparisonLine:
    """One method in a comparison. Differences are paired: taken seed by seed on the same split and initial models."""

    method: str
    title: str
    """Its name in text."""
    score: Estimate
    """Mean over the agents with good labels."""
    worst: float
    """Score of the worst of these agents, mean over seeds."""
    gain: Estimate
    """Gain over training alone."""
    lead: Estimate
    """Difference to the first method of the comparison."""
    trained: float = float("nan")
    """Samples that passed forward and back in all agents and rounds, mean over seeds; NaN if unknown."""
    forward: float = float("nan")
    """Samples that passed forward only."""


@dataclass(frozen=True)
class Comparison:
    """Results of a comparison."""

    table: "pd.DataFrame"
    """One row per method, seed and agent: the last round, with the samples passed in all rounds."""
    scores: Sequence[Score]
    """Scores of the task."""
    titles: dict[str, str]
    """Name of each method in text."""
    summaries: Sequence[Summary] = ()
    """Facts about each run."""

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
    equal_compute: bool = False,
) -> "Comparison":
    """Runs every method with every seed into `folder`/seed-S/METHOD; what is finished there is not run again.

    With `equal_compute` methods stop at the same budget: on every seed, the samples that the costliest one passed
    forward and back in its rounds. The others go on for as many more rounds as fit into it.
    """
    import pandas as pd

    if not methods or not seeds:
        raise ConsilienceError("name at least one method and one seed, such as consensus and 0.")
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
    if equal_compute:
        jobs = _to_one_budget(jobs, workers, callbacks)
    runs = run_jobs(jobs, workers, callbacks)
    rows = [
        _with_totals(run).assign(method=job.method, seed=job.settings.run.seed)
        for job, run in zip(jobs, runs, strict=True)
    ]
    titles = {job.method: run.summary.title for job, run in zip(jobs, runs, strict=True)}
    names = list(titles.values())
    titles = {method: title if names.count(title) == 1 else method for method, title in titles.items()}
    return Comparison(pd.concat(rows, ignore_index=True), runs[0].summary.scores, titles, [run.summary for run in runs])


def _to_one_budget(jobs: Sequence[Job], workers: int, callbacks: Sequence[Callback]) -> list[Job]:
    """The jobs with as many rounds as fit the training samples of the costliest job of the same seed.

    All of them run for their own rounds first; runs that were made longer before are longer already.
    """
    begun = [_as_long_as_begun(job) for job in jobs]
    runs = run_jobs(begun, workers, callbacks)
    costs = [_costs(run, job.settings.run.rounds) for job, run in zip(jobs, runs, strict=True)]
    budgets: dict[int, float] = {}
    for job, cost in zip(jobs, costs, strict=True):
        seed = job.settings.run.seed
        budgets[seed] = max(budgets.get(seed, 0.0), cost.sum())
    with_costs = zip(jobs, costs, strict=True)
    return [_longer(job, rounds_within(budgets[job.settings.run.seed], cost)) for job, cost in with_costs]


def rounds_within(budget: float, costs: Array) -> int:
    """T + floor((budget - sum_t c_t) / c_T): the rounds that fit, if all after the T known ones cost as the last did.

    >>> rounds_within(100, np.array([10, 30, 20]))
    5
    """
    return len(costs) + int((budget - costs.sum()) // costs[-1]) if costs[-1] > 0 else len(costs)


def _costs(run: Run, rounds: int) -> Array:
    """Samples that all agents of a run trained on, in each of its first rounds."""
    if "samples_trained" not in run.metrics:
        raise ConsilienceError(
            "a run in this folder was made before samples were counted, so that methods cannot be stopped at the same "
            "number of them. Compare in another folder."
        )
    costs = run.metrics.groupby("round")["samples_trained"].sum()
    return np.asarray(costs[costs.index <= rounds], dtype=float)


def _as_long_as_begun(job: Job) -> Job:
    """The job with the rounds of the run in its folder, if that has more."""
    if not (job.folder / "config.toml").is_file():
        return job
    return _longer(job, max(job.settings.run.rounds, settings_of(job.folder).run.rounds))


def _longer(job: Job, rounds: int) -> Job:
    settings = replace(job.settings, run=replace(job.settings.run, rounds=rounds))
    return replace(job, settings=settings)


def _with_totals(run: Run) -> "pd.DataFrame":
    """The last round, with the samples that each agent passed through its model in all rounds."""
    table, totals = run.last_round(), run.metrics.groupby("agent")
    known = [column for column in PASSED if column in run.metrics]
    return table.assign(**{f"{column}_in_all": table["agent"].map(totals[column].sum()) for column in known})


def score_of(column: str, scores: Sequence[Score]) -> Score:
    """The score in a column such as accuracy_target; an unknown column is an error that names the known."""
    columns = {f"{score.name}_{place}": score for score in scores for place in PLACES}
    if column not in columns:
        raise ConsilienceError(f"unknown score {column!r}. Known here: {', '.join(columns)}.")
    return columns[column]


def good_rows(table: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of honest agents with good labels."""
    return table[~(table["low_quality"].astype(bool) | table["attacker"].astype(bool))]


def summarise(compared: "Comparison", score: str = "") -> list[ComparisonLine]:
    """One line per method, in the order they were given, by a column such as accuracy_target."""
    table, column = compared.table, score or compared.default_score
    higher_is_better = score_of(column, compared.scores).higher_is_better
    good = good_rows(table)
    per_seed = good.pivot_table(index="seed", columns="method", values=column)
    grouped = good.groupby(["method", "seed"])[column]
    worst = (grouped.min() if higher_is_better else grouped.max()).groupby("method").mean()
    methods = list(dict.fromkeys(table["method"]))
    counted = [f"{name}_in_all" for name in PASSED if f"{name}_in_all" in table]
    passed = table.groupby(["method", "seed"])[counted].sum(min_count=1).groupby("method").mean()
    sign = 1 if higher_is_better else -1
    nothing = Estimate(float("nan"), float("nan"))
    lines = []
    for method in methods:
        own = per_seed[method]
        gain = estimate(sign * (own - per_seed["alone"])) if "alone" in per_seed and method != "alone" else nothing
        lead = estimate(sign * (own - per_seed[methods[0]])) if method != methods[0] else nothing
        cost = passed.loc[method].tolist()
        lines.append(
            ComparisonLine(method, compared.titles[method], estimate(own), float(worst[method]), gain, lead, *cost)
        )
    return lines


def parse_seeds(text: str, what: str = "seeds") -> list[int]:
    """Numbers from a list or a range; `what` names them in errors.

    >>> parse_seeds("0-2"), parse_seeds("3,5")
    ([0, 1, 2], [3, 5])
    """
    seeds: list[int] = []
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConsilienceError(f"{what} {text}: write numbers and ranges, such as 0-4 or 1,3,5.")
        begin, end = int(first), int(last or first)
        if end < begin:
            raise ConsilienceError(f"{what} {text}: the range {begin}-{end} is empty. Write {end}-{begin}.")
        if end - begin >= MOST_SEEDS:
            raise ConsilienceError(f"{what} {text}: the range has more than {MOST_SEEDS} numbers. Write a shorter one.")
        seeds += range(begin, end + 1)
    return list(dict.fromkeys(seeds))
