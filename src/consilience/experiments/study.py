"""A study: where a grid is too large, Optuna proposes settings one after another and learns from their scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.base.errors import ConsilienceError
from consilience.experiments.compare import estimate
from consilience.experiments.sweep import Axis, Choice, halves, setting_text
from consilience.runtime.callbacks import Callback
from consilience.runtime.run import Run
from consilience.settings.presets import write_config
from consilience.settings.settings import Settings, changed
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Study:
    """What the trials gave."""

    table: "pd.DataFrame"
    """One row per trial: its number, the setting, and the mean score on the seeds that choose."""
    axes: Sequence[Axis]
    choice: Choice
    best: int
    """The number of the trial that was chosen."""
    score: str
    higher_is_better: bool


def study(
    settings: Settings,
    axes: Sequence[Axis],
    seeds: Sequence[int],
    trials: int,
    folder: Path,
    score: str = "",
    workers: int = 0,
    callbacks: Sequence[Callback] = (),
    on_trial: Callable[[int, dict[str, Any], float], None] = lambda number, setting, value: None,
) -> Study:
    """So many trials of the method of `settings` on the first half of the seeds, then the best one on the others.

    Two values of an axis that are numbers are the ends of a range, logarithmic where they lie more than a factor of
    ten apart; otherwise the values are the choices. Every trial's proposal depends on the trials before it and its
    number alone, and finished runs are not run again: an interrupted study goes on to the same end.
    """
    import pandas as pd

    try:
        import optuna
    except ImportError as error:
        raise ConsilienceError("a study needs optuna: pip install 'consilience[sweeps]'.") from error
    tuning, held_out = halves(seeds)
    if not tuning:
        raise ConsilienceError("a study needs at least two seeds: one to choose by and one to measure on.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    settings = replace(settings, run=replace(settings.run, references=()))
    write_config(settings, folder)
    made: Any = None
    rows: list[dict[str, Any]] = []

    def runs_of(setting: dict[str, Any], numbers: Sequence[int]) -> list[Run]:
        chosen = changed(settings, setting, "--grid")
        name = setting_text(setting).replace("/", "_")
        method = settings.method.label
        jobs = [
            Job(chosen.with_seed(seed), folder / f"seed-{seed}" / name, method, label=f"{name}, seed {seed}")
            for seed in numbers
        ]
        return run_jobs(jobs, workers, callbacks)

    def values_of(runs: Sequence[Run], column: str) -> list[float]:
        tables = [run.last_round() for run in runs]
        return [float(table[~(table["low_quality"] | table["attacker"])][column].mean()) for table in tables]

    for number in range(trials):
        if made is None:
            made = optuna.create_study()
        made.sampler = optuna.samplers.TPESampler(seed=1000 + number, n_startup_trials=max(4, trials // 4))
        trial = made.ask()
        setting = {axis.key: _proposed(trial, axis) for axis in axes}
        runs = runs_of(setting, tuning)
        first = runs[0].summary.scores
        column = score or f"{first[0].name}_target"
        known = {f"{one.name}_{place}": one for one in first for place in ("shared", "target", "own")}
        if column not in known:
            raise ConsilienceError(f"unknown score {column!r}. Known here: {', '.join(known)}.")
        value = estimate(values_of(runs, column)).mean
        sign = -1 if known[column].higher_is_better else 1
        made.tell(trial, sign * value)
        rows.append({"trial": number, **setting, column: value})
        on_trial(number, setting, value)
    number = made.best_trial.number
    best = {axis.key: rows[number][axis.key] for axis in axes}
    choice = Choice(
        settings.method.label,
        {},
        best,
        tuple(tuning),
        estimate(values_of(runs_of(best, tuning), column)),
        tuple(held_out),
        estimate(values_of(runs_of(best, held_out), column)),
    )
    return Study(pd.DataFrame(rows), axes, choice, number, column, known[column].higher_is_better)


def is_range(axis: Axis) -> bool:
    """Whether the values are the two ends of a range rather than choices."""
    return len(axis.values) == 2 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in axis.values)


def _proposed(trial: Any, axis: Axis) -> Any:
    """A value of the axis: from its range, or one of its choices."""
    if is_range(axis):
        low, high = sorted(axis.values)
        wide = low > 0 and high / low > 10
        if isinstance(low, int) and isinstance(high, int):
            return trial.suggest_int(axis.key, low, high, log=wide)
        return float(f"{trial.suggest_float(axis.key, low, high, log=wide):.4g}")
    choices = [str(value) if isinstance(value, list) else value for value in axis.values]
    return axis.values[choices.index(trial.suggest_categorical(axis.key, choices))]
