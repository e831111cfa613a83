"""compare with --grid: methods x settings x seeds."""

from pathlib import Path
from typing import TYPE_CHECKING

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
    """Runs every method with every setting and seed; prints and writes the results."""
    from consilience.experiments.sweep import parse_axis, plan, sweep
    from consilience.report.progress import Progress
    from consilience.report.sweep import grid as table
    from consilience.report.sweep import sentences, write_sweep

    axes = [parse_axis(text) for text in grid]
    runs = len(plan(settings, methods, axes, seeds))
    try:
        with Progress(console, settings.run.rounds, runs) as progress:
            results = sweep(settings, methods, axes, seeds, folder, workers, [progress, *loggers])
    except KeyboardInterrupt:
        end_stopped(f"the same command, with --resume --out {folder}")
    console.print(table(results, score))
    for sentence in sentences(results, score):
        console.print(f"- {sentence}", highlight=False)
    print_written(write_sweep(results, folder, f"{name}: {', '.join(axis.key for axis in axes)}", score))
