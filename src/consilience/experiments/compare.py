"""Methods x settings x seeds on identical splits, with honest intervals, and the best setting of each method."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from consilience.base.errors import ConsilienceError
from consilience.experiments.axes import ALONE, Axis, combined, given, plan
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
OWN, HOME = "_own", "_home"
"""Ends of columns of scores at home: of the model as it was trained, and of the home model."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its 95 % confidence interval (Student's t; not defined for a single seed)."""

    mean: float = float("nan")
    half_width: float = float("nan")

    def text(self, signed: bool = False) -> str:
        """As in tables, such as 0.812 ± 0.020; without an interval the mean alone."""
        interval = "" if np.isnan(self.half_width) else f" ± {self.half_width:.3f}"
        return f"{self.mean:{'+' if signed else ''}.3f}{interval}"


@dataclass(frozen=True)
class ComparisonLine:
    """One method with one setting. Differences are paired by seed: on the same split and initial models."""

    method: str
    title: str
    """Its name in text."""
    score: Estimate
    """Mean over the agents with good labels."""
    worst: float = float("nan")
    """Score of the worst of these agents, mean over seeds."""
    gain: Estimate = Estimate()
    """Gain over training alone with the same setting."""
    lead: Estimate = Estimate()
    """Difference to the first method of the comparison; not defined where settings are swept."""
    trained: float = float("nan")
    """Samples that passed forward and back in all agents and rounds, mean over seeds; NaN if unknown."""
    forward: float = float("nan")
    """Samples that passed forward only."""
    setting: dict[str, Any] = field(default_factory=dict)
    """Values by axis, without the axes that the method does not have."""
    elsewhere: float = float("nan")
    """The mean of the same score at home; of a score at home, on the target domain."""
    home: float = float("nan")
    """The mean at home of the home model, where agents alone are compared as well."""


@dataclass(frozen=True)
class Choice:
    """The best setting of a method on the first half of the seeds, and its score on the others."""

    method: str
    given: dict[str, Any]
    """Settings that make another problem rather than a better answer, so that none of them is chosen."""
    setting: dict[str, Any]
    tuning: tuple[int, ...]
    on_tuning: Estimate
    held_out: tuple[int, ...]
    on_held_out: Estimate


@dataclass(frozen=True)
class Comparison:
    """Results of a comparison."""

    table: "pd.DataFrame"
    """One row per method, setting, seed and agent: the last round, the samples passed in all rounds, every axis."""
    scores: Sequence[Score]
    """Scores of the task."""
    titles: dict[str, str]
    """Name of each method in text."""
    summaries: Sequence[Summary] = ()
    """Facts about each run."""
    axes: Sequence[Axis] = ()
    given: frozenset[str] = frozenset()
    """Axes that make another problem: settings of the data and of privacy."""

    @property
    def methods(self) -> list[str]:
        """In the order of the request."""
        return list(self.titles)

    @property
    def seeds(self) -> list[int]:
        """In the order of the request."""
        return list(dict.fromkeys(self.table["seed"].tolist()))

    @property
    def default_score(self) -> str:
        """The task's first score on the target domain."""
        return f"{self.scores[0].name}_target"

    def higher_is_better(self, column: str) -> bool:
        """Whether a higher score in this column is better; an unknown column is an error that names the known."""
        columns = {f"{score.name}_{where}": score for score in self.scores for where in PLACES}
        if column not in columns:
            raise ConsilienceError(f"unknown score {column!r}. Known here: {', '.join(columns)}.")
        return columns[column].higher_is_better


def estimate(values: "Sequence[float] | Array | pd.Series[float]") -> Estimate:
    """Mean and 95 % interval of independent values, one per seed.

    >>> mean = estimate([0.8, 0.9, 1.0])
    >>> round(mean.mean, 3), round(mean.half_width, 3)
    (0.9, 0.248)
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return Estimate(float(values.mean()))
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
    axes: Sequence[Axis] = (),
) -> Comparison:
    """Runs every method with every seed and setting into `folder`; what is finished there is not run again.

    With `equal_compute` methods stop at the same budget: on every seed, the samples that the costliest one passed
    forward and back in its rounds. The others go on for as many more rounds as fit into it.
    """
    import pandas as pd

    planned = plan(settings, methods, seeds, axes)
    jobs = [replace(entry.job, folder=folder / entry.job.folder) for entry in planned]
    if equal_compute:
        jobs = _to_one_budget(jobs, workers, callbacks)
    runs = run_jobs(jobs, workers, callbacks)
    alone = {entry.seed: run for entry, run in zip(planned, runs, strict=True) if entry.method == ALONE and not axes}
    rows = []
    for entry, run in zip(planned, runs, strict=True):
        if entry.method != ALONE and entry.seed in alone:
            run = replace(run, references={ALONE: alone[entry.seed]})
        values = {key: str(value) if isinstance(value, list) else value for key, value in entry.setting.items()}
        rows.append(_with_totals(run).assign(method=entry.method, seed=entry.seed, **values))
    titles = {entry.method: run.summary.title for entry, run in zip(planned, runs, strict=True)}
    names = list(titles.values())
    titles = {method: title if names.count(title) == 1 else method for method, title in titles.items()}
    table = pd.concat(rows, ignore_index=True)
    first = ["method", *(axis.key for axis in axes), "seed", "agent"]
    table = table[[*first, *(column for column in table if column not in first)]]
    summaries = [run.summary for run in runs]
    return Comparison(table, summaries[0].scores, titles, summaries, tuple(axes), given(settings, axes))


def _to_one_budget(jobs: Sequence[Job], workers: int, callbacks: Sequence[Callback]) -> list[Job]:
    """The jobs with as many rounds as fit the training samples of the costliest job of the same seed.

    All of them run for their own rounds first; runs that were made longer before are longer already.
    """
    runs = run_jobs([_as_long_as_begun(job) for job in jobs], workers, callbacks)
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
    costs = run.metrics.groupby("round")["samples_trained"].sum()
    return np.asarray(costs[costs.index <= rounds], dtype=float)


def _as_long_as_begun(job: Job) -> Job:
    """The job with the rounds of the run in its folder, if that has more."""
    if not (job.folder / "config.toml").is_file():
        return job
    return _longer(job, max(job.settings.run.rounds, settings_of(job.folder).run.rounds))


def _longer(job: Job, rounds: int) -> Job:
    return replace(job, settings=replace(job.settings, run=replace(job.settings.run, rounds=rounds)))


def _with_totals(run: Run) -> "pd.DataFrame":
    """The last round, with the samples that each agent passed through its model in all rounds, and its home model."""
    table, totals = run.last_round(), run.metrics.groupby("agent")
    more = {f"{column}_in_all": table["agent"].map(totals[column].sum()) for column in PASSED}
    home = run.home_scores()
    for column in dict.fromkeys(column for scores in home.values() for column in scores):
        values = {name: scores[column] for name, scores in home.items()}
        more[column.removesuffix(OWN) + HOME] = table["agent"].map(values)
    return table.assign(**more)


def good_rows(table: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of honest agents with good labels."""
    return table[~(table["low_quality"].astype(bool) | table["attacker"].astype(bool))]


def summarise(compared: Comparison, score: str = "") -> list[ComparisonLine]:
    """One line per method and setting, in the order they were given, by a column such as accuracy_target."""
    column = score or compared.default_score
    higher = compared.higher_is_better(column)
    sign = 1 if higher else -1
    groups = _groups(compared)
    by_seed = [good_rows(rows).groupby("seed")[column] for _, _, rows in groups]
    lines, first = [], by_seed[0].mean()
    for (method, setting, rows), scores in zip(groups, by_seed, strict=True):
        own, gain = scores.mean(), Estimate()
        for (other, same, _), alone in zip(groups, by_seed, strict=True):
            if other == ALONE != method and same.items() <= setting.items():
                gain = estimate(sign * (own - alone.mean()))
        lead = Estimate() if compared.axes or method == groups[0][0] else estimate(sign * (own - first))
        worst = float(scores.agg("min" if higher else "max").mean())
        trained, forward = (_passed(rows, key) for key in PASSED)
        name, _, place = column.rpartition("_")
        others = f"{name}_target" if f"_{place}" == OWN else name + OWN, name + HOME
        elsewhere, home = (_mean(rows, key) for key in others)
        mean, title = estimate(own), compared.titles[method]
        lines.append(ComparisonLine(method, title, mean, worst, gain, lead, trained, forward, setting, elsewhere, home))
    return lines


def _mean(rows: "pd.DataFrame", column: str) -> float:
    """The mean over seeds of the mean over agents with good labels; NaN where the column is unknown."""
    return float(good_rows(rows).groupby("seed")[column].mean().mean()) if column in rows else float("nan")


def _passed(rows: "pd.DataFrame", name: str) -> float:
    column = f"{name}_in_all"
    return float(rows.groupby("seed")[column].sum(min_count=1).mean()) if column in rows else float("nan")


def choose(compared: Comparison, score: str = "") -> list[Choice]:
    """For every method and dataset: the best setting on the first half of the seeds, measured on the others.

    A score on the seeds that chose a setting flatters it. With a single seed nothing can be held out: no choice.
    """
    column = score or compared.default_score
    sign = 1 if compared.higher_is_better(column) else -1
    half = len(compared.seeds) // 2
    tuning, held_out = compared.seeds[:half], compared.seeds[half:]
    problems: dict[str, list[tuple[str, dict[str, Any], pd.Series[float]]]] = {}
    for method, setting, rows in _groups(compared):
        problem = {key: value for key, value in setting.items() if key in compared.given}
        scores = good_rows(rows).groupby("seed")[column].mean()
        problems.setdefault(f"{method} {problem}", []).append((method, setting, scores))
    choices = []
    for candidates in problems.values():
        if len(candidates) < 2 or not tuning:
            continue
        method, setting, scores = max(candidates, key=lambda candidate: sign * candidate[2].loc[tuning].mean())
        choices.append(
            Choice(
                method,
                {key: value for key, value in setting.items() if key in compared.given},
                {key: value for key, value in setting.items() if key not in compared.given},
                tuple(tuning),
                estimate(scores.loc[tuning]),
                tuple(held_out),
                estimate(scores.loc[held_out]),
            )
        )
    return choices


def _groups(compared: Comparison) -> "list[tuple[str, dict[str, Any], pd.DataFrame]]":
    groups = []
    for method in compared.methods:
        of_method = compared.table[compared.table["method"] == method]
        own = [axis for axis in compared.axes if of_method[axis.key].notna().any()]
        for values in combined(own):
            rows = of_method
            for axis, value in zip(own, values, strict=True):
                rows = rows[rows[axis.key] == (str(value) if isinstance(value, list) else value)]
            if len(rows):
                groups.append((method, dict(zip((axis.key for axis in own), values, strict=True)), rows))
    return groups
