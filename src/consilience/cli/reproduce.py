"""The paper's tables and figures."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilience.cli.common_options import (
    RUNS,
    DataDir,
    Workers,
    console,
    print_list,
    print_written,
    run_with_progress,
    set_data_dir,
)

if TYPE_CHECKING:
    from consilience.paper.artefact import Outcome, Runs
    from consilience.workers.job import Job


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="[ARTEFACT]", help="What to reproduce. Default: list.")] = None,
    scale: Annotated[str, typer.Option(help="smoke (seconds), cpu (minutes), long (hours) or paper (days).")] = "cpu",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-2.")] = "0",
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder of runs, tables and figures.")] = RUNS / "reproduce",
    workers: Workers = 0,
) -> None:
    """Reproduce a table or figure of the paper, with our numbers next to the printed ones.

    Finished runs are not repeated: the same command continues an interrupted reproduction. Artefacts share runs.
    Runs at smoke scale only show that everything runs.

    Example:

      consilience reproduce table1-cifar10 --scale cpu --seeds 0-2 --data-dir DATA
    """
    with console.status("Loading ..."):
        from consilience.paper.artefacts import ARTEFACTS, artefact
        from consilience.paper.scales import check_scale

    if name is None:
        print_list({known.name: known.title for known in ARTEFACTS})
        return
    chosen = artefact(name)
    check_scale(scale)
    set_data_dir(data_dir)
    with console.status("Loading ..."):
        from consilience.base.files import lock_folder
        from consilience.experiments.axes import parse_seeds
        from consilience.report.run_index import note_finding, write_index

    folder, numbers = out / scale, parse_seeds(seeds)
    lock_folder(folder)
    console.print(f"{chosen.title}, scale {scale}", style="bold", highlight=False)
    if chosen.expectation:
        console.print(f"Expected: {chosen.expectation}", highlight=False)
    runs = _run(chosen.jobs(scale, numbers, folder), workers)
    with console.status("Table and figure ..."):
        outcome = chosen.finish(runs, scale, numbers, folder)
        warning = [outcome.caveat] if outcome.caveat else []
        note_finding(folder, chosen.name, chosen.title, chosen.expectation, warning + outcome.sentences)
        page = write_index(folder, f"Reproduction of the paper, scale {scale}")
    _print(outcome, chosen.title, scale)
    console.print(f"All artefacts and runs so far: {page}", soft_wrap=True, highlight=False)


def _run(jobs: "list[Job]", workers: int) -> "Runs":
    from consilience.paper.scales import experiment
    from consilience.workers.jobs import run_jobs

    if not jobs:
        return []
    jobs = [replace(job, label=f"{experiment(job)} {job.method}") for job in jobs]
    rounds = max(job.settings.run.rounds for job in jobs)
    runs = run_with_progress(partial(run_jobs, jobs, workers), rounds, len(jobs), [], "the same command")
    return list(zip(jobs, runs, strict=True))


def _print(outcome: "Outcome", title: str, scale: str) -> None:
    from rich.text import Text

    from consilience.report.tables import frame_grid

    if outcome.table is not None:
        console.print(frame_grid(outcome.table, title))
    if outcome.caveat:
        console.print(Text(outcome.caveat, style="bold"))
    if scale == "smoke":
        console.print(Text("Scale smoke only shows that everything runs: the verdicts mean nothing.", style="bold"))
    for sentence in outcome.sentences:
        line = Text(f"- {sentence}")
        line.highlight_words(["does not hold"], style="bold")
        console.print(line)
    print_written(outcome.written)
