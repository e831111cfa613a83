"""Sweeps: methods x settings x seeds, and the best setting, chosen on some seeds and measured on others."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import to_table
from consilience.experiments.compare import Estimate, estimate, good_rows, score_of
from consilience.runtime.callbacks import Callback
from consilience.settings.presets import write_config
from consilience.settings.settings import Settings, changed, where_it_is
from consilience.tasks.protocol import Score
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

if TYPE_CHECKING:
    import pandas as pd

MOST_RUNS = 100_000
PROBLEM = ("data.", "agents.privacy.")
"""Prefixes of the settings that make another problem."""
ALONE = "alone"
"""The baseline of gains."""


@dataclass(frozen=True)
class Axis:
    """A setting, and the values that are tried."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SweepLine:
    """One method with one setting."""

    method: str
    setting: dict[str, Any]
    """Values by axis, without the axes that the method does not have."""
    score: Estimate
    """Mean over the agents with good labels, over all seeds."""
    worst: float
    """Score of the worst of these agents, mean over seeds."""
    gain: Estimate
    """Gain over training alone with the same setting, paired by seed; NaN without `alone` in the sweep."""


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
class Sweep:
    """Results of the runs."""

    table: "pd.DataFrame"
    """One row per method, setting, seed and agent: the last round, and a column for every axis."""
    axes: Sequence[Axis]
    methods: Sequence[str]
    seeds: Sequence[int]
    scores: Sequence[Score]
    given: frozenset[str] = frozenset()
    """Axes that make another problem: settings of the data and of privacy."""

    @property
    def default_score(self) -> str:
        """The task's first score on the target domain."""
        return f"{self.scores[0].name}_target"

    def higher_is_better(self, column: str) -> bool:
        """Whether a higher score in this column is better."""
        return score_of(column, self.scores).higher_is_better


def parse_axis(text: str) -> Axis:
    """`key=value,value,...`, each value in TOML; a comma in brackets or quotes separates nothing.

    >>> parse_axis("lam=0.1,0.5,1"), parse_axis("models=[mlp],[cnn, mlp]").values
    (Axis(key='lam', values=(0.1, 0.5, 1)), (['mlp'], ['cnn', 'mlp']))
    """
    key, equals, values = text.partition("=")
    parts = [item.strip() for item in re.split(r",(?![^\[(]*[\])])(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", values)]
    if not equals or not key.strip() or not all(parts):
        raise ConsilienceError(f"--grid {text}: write a setting and its values, such as lam=0.1,0.5,1.")
    parsed = tuple(_value(item) for item in parts)
    if len(set(map(str, parsed))) < len(parsed):
        raise ConsilienceError(f"--grid {text}: a value is there twice.")
    return Axis(key.strip(), parsed)


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [toml.value(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    return toml.value(text)


def points(settings: Settings, method: str, axes: Sequence[Axis]) -> list[tuple[dict[str, Any], Settings]]:
    """Every combination of the values of those axes that `method` has, with its settings."""
    base = settings.with_method(method)
    known = to_table(base)
    own = [axis for axis in axes if where_it_is(axis.key, known)]
    combinations = []
    for values in itertools.product(*(axis.values for axis in own)):
        setting = dict(zip((axis.key for axis in own), values, strict=True))
        combinations.append((setting, changed(base, setting, f"--grid, {method}")))
    return combinations


def plan(settings: Settings, methods: Sequence[str], axes: Sequence[Axis], seeds: Sequence[int]) -> "list[Planned]":
    """The runs, with folders relative to that of the sweep."""
    if not methods or not seeds or not axes:
        raise ConsilienceError("name at least one method, one seed and one setting with its values.")
    keys = [axis.key for axis in axes]
    if len(set(keys)) < len(keys):
        raise ConsilienceError("--grid: the same setting is there twice; write all its values in one.")
    settings = replace(settings, run=replace(settings.run, references=()))
    by_method = {method: points(settings, method, axes) for method in methods}
    for axis in axes:
        if not any(axis.key in point for combinations in by_method.values() for point, _ in combinations):
            changed(settings, {axis.key: axis.values[0]}, "--grid")  # raises an error that lists the known settings
    count = len(seeds) * sum(map(len, by_method.values()))
    if count > MOST_RUNS:
        raise ConsilienceError(f"this grid has {count:,} runs. Use fewer values.")
    planned = []
    for seed in seeds:
        for method, combinations in by_method.items():
            for point, chosen in combinations:
                name = setting_text(point) or "default"
                folder = Path(f"seed-{seed}") / method / re.sub(r"[^\w.,=+\[\]-]+", "_", name)
                job = Job(chosen.with_seed(seed), folder, method, label=f"{method}, {name}, seed {seed}")
                planned.append(Planned(job, method, point, seed))
    return planned


@dataclass(frozen=True)
class Planned:
    """A run of a sweep."""

    job: Job
    method: str
    setting: dict[str, Any]
    seed: int


def sweep(
    settings: Settings,
    methods: Sequence[str],
    axes: Sequence[Axis],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 0,
    callbacks: Sequence[Callback] = (),
) -> Sweep:
    """Runs every method with every setting and seed into `folder`; what is finished there is not run again."""
    import pandas as pd

    planned = plan(settings, methods, axes, seeds)
    write_config(settings, folder)
    runs = run_jobs([replace(entry.job, folder=folder / entry.job.folder) for entry in planned], workers, callbacks)
    rows = []
    for entry, run in zip(planned, runs, strict=True):
        row = run.last_round().assign(method=entry.method, seed=entry.seed)
        for axis in axes:
            value = entry.setting.get(axis.key)
            row[axis.key] = str(value) if isinstance(value, list) else value
        rows.append(row)
    table = pd.concat([row.dropna(axis=1, how="all") for row in rows], ignore_index=True)
    for axis in axes:
        if axis.key not in table:
            table[axis.key] = None
    first = ["method", *(axis.key for axis in axes), "seed", "agent"]
    table = table[[*first, *(column for column in table if column not in first)]]
    return Sweep(table, axes, list(methods), list(seeds), runs[0].summary.scores, given(settings, axes))


def summarise(results: Sweep, score: str = "") -> list[SweepLine]:
    """One line per method and setting, in the order of the grid."""
    column = score or results.default_score
    higher = results.higher_is_better(column)
    scores = [(method, setting, rows.groupby("seed")[column]) for method, setting, rows in _groups(results)]
    lines = []
    for method, setting, by_seed in scores:
        own, gain = by_seed.mean(), Estimate(float("nan"), float("nan"))
        for other, same, alone in scores:
            if other == ALONE != method and same.items() <= setting.items():
                gain = estimate((own - alone.mean()).to_numpy() * (1 if higher else -1))
        worst = by_seed.agg("min" if higher else "max").mean()
        lines.append(SweepLine(method, setting, estimate(own.to_numpy()), float(worst), gain))
    return lines


def choose(results: Sweep, score: str = "") -> list[Choice]:
    """For every method and dataset: the best setting on the first half of the seeds, measured on the others.

    A score on the seeds that chose a setting flatters it. With a single seed nothing can be held out: no choice.
    """
    column = score or results.default_score
    sign = 1 if results.higher_is_better(column) else -1
    tuning, held_out = halves(results.seeds)
    choices = []
    for method in results.methods:
        problems: dict[str, list[tuple[dict[str, Any], pd.Series[float]]]] = {}
        for name, setting, rows in _groups(results):
            if name == method:
                problem = {key: value for key, value in setting.items() if key in results.given}
                problems.setdefault(str(problem), []).append((setting, rows.groupby("seed")[column].mean()))
        for candidates in problems.values():
            if len(candidates) < 2 or not tuning:
                continue
            setting, values = max(candidates, key=lambda candidate: sign * candidate[1].loc[tuning].mean())
            choices.append(
                Choice(
                    method,
                    {key: value for key, value in setting.items() if key in results.given},
                    {key: value for key, value in setting.items() if key not in results.given},
                    tuple(tuning),
                    estimate(values.loc[tuning].to_numpy()),
                    tuple(held_out),
                    estimate(values.loc[held_out].to_numpy()),
                )
            )
    return choices


def given(settings: Settings, axes: Sequence[Axis]) -> frozenset[str]:
    """Those axes that make another problem rather than a better answer."""
    known = to_table(settings)
    names = {axis.key: where_it_is(axis.key, known) for axis in axes}
    return frozenset(key for key, full in names.items() if full and full[0].startswith(PROBLEM))


def halves(seeds: Sequence[int]) -> tuple[list[int], list[int]]:
    """The seeds on which settings are chosen, and those on which the chosen one is measured.

    >>> halves([0, 1, 2, 3, 4])
    ([0, 1], [2, 3, 4])
    """
    return list(seeds[: len(seeds) // 2]), list(seeds[len(seeds) // 2 :])


def setting_text(setting: dict[str, Any]) -> str:
    """A setting as text.

    >>> setting_text({"lam": 0.5, "alpha": 1})
    'lam=0.5, alpha=1'
    """
    return ", ".join(f"{key}={value}" for key, value in setting.items())


def _groups(results: Sweep) -> "list[tuple[str, dict[str, Any], pd.DataFrame]]":
    """The rows of the agents with good labels, by method and setting, in the order of the grid."""
    good = good_rows(results.table)
    groups = []
    for method in results.methods:
        of_method = good[good["method"] == method]
        own = [axis for axis in results.axes if of_method[axis.key].notna().any()]
        for values in itertools.product(*(axis.values for axis in own)):
            rows = of_method
            for axis, value in zip(own, values, strict=True):
                rows = rows[rows[axis.key] == (str(value) if isinstance(value, list) else value)]
            if len(rows):
                groups.append((method, dict(zip((axis.key for axis in own), values, strict=True)), rows))
    return groups
