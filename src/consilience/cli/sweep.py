"""compare with --grid: methods x settings x seeds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from consilience.cli.common_options import console, end_stopped, print_written

if TYPE_CHECKING:
    from consilience.runtime.callbacks import Callback
    from consilience.settings.settings import Settings


def run_sweep(
    settings: "Settings",
    methods: list[str],
    grid: list[str],
    seeds: list[int],
    folder: Path,
    name: str,
    score: str,
    workers: int,
    loggers: "list[Callback]",
) -> None:
    """Every method with every setting and seed; prints and writes what came of it."""
    from consilience.experiments.sweep import parse_axis, plan, sweep
    from consilience.report.progress import Progress
    from consilience.report.sweep import grid as table
    from consilience.report.sweep import sentences, write_sweep

    axes = [parse_axis(text) for text in grid]
    runs = len(plan(settings, methods, axes, seeds))
    try:
        with Progress(console, settings.run.rounds, runs) as progress:
            found = sweep(settings, methods, axes, seeds, folder, workers, [progress, *loggers])
    except KeyboardInterrupt:
        end_stopped(f"the same command, with --resume --out {folder}")
    console.print(table(found, score))
    for sentence in sentences(found, score):
        console.print(f"- {sentence}", highlight=False)
    print_written(write_sweep(found, folder, f"{name}: {', '.join(axis.key for axis in axes)}", score))


def run_study(
    settings: "Settings",
    grid: list[str],
    seeds: list[int],
    trials: int,
    folder: Path,
    name: str,
    score: str,
    workers: int,
    loggers: "list[Callback]",
) -> None:
    """So many trials proposed by Optuna; prints and writes what came of them."""
    from consilience.experiments.study import study
    from consilience.experiments.sweep import parse_axis, setting_text
    from consilience.report.study import grid as table
    from consilience.report.study import write_study
    from consilience.report.sweep import choice_sentence

    def say(number: int, setting: dict[str, Any], value: float) -> None:
        console.print(f"trial {number + 1} of {trials}: {setting_text(setting)} gives {value:.3f}", highlight=False)

    axes = [parse_axis(text) for text in grid]
    try:
        found = study(settings, axes, seeds, trials, folder, score, workers, loggers, say)
    except KeyboardInterrupt:
        end_stopped(f"the same command, with --resume --out {folder}")
    console.print(table(found, most=10))
    console.print(f"- {choice_sentence(found.choice)}", highlight=False)
    print_written(write_study(found, folder, f"{name}: {', '.join(axis.key for axis in axes)}"))
