"""The paper's tables and figures."""

from pathlib import Path
from typing import Annotated

import typer

from consilience.cli.screen import (
    RUNS,
    DataDir,
    Workers,
    console,
    end_stopped,
    print_list,
    print_written,
    set_data_dir,
)


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="[ARTEFACT]", help="What to reproduce. Default: list.")] = None,
    scale: Annotated[str, typer.Option(help="smoke (seconds), cpu (minutes to hours) or paper (days).")] = "cpu",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-2.")] = "0",
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Where runs, tables and figures are kept.")] = RUNS / "reproduce",
    workers: Workers = 0,
) -> None:
    """Reproduce a table or figure of the paper, our number beside the printed one.

    Runs that are finished are not run again, and an interrupted reproduction goes on where it stopped: type the same
    command. Artefacts that need the same runs share them.

    Example:

      consilience reproduce table1-cifar10 --scale cpu --seeds 0-2 --data-dir DATA
    """
    with console.status("Loading ..."):
        from consilience.experiments.compare import parse_seeds
        from consilience.paper.artefacts import ARTEFACTS, TOYS, artefact

    if name is None:
        print_list(
            {"fig3": "Fig. 3: class distributions among agents"} | TOYS | {one.name: one.title for one in ARTEFACTS}
        )
        return
    set_data_dir(data_dir)
    folder, numbers = out / scale, parse_seeds(seeds)
    with console.status("Loading ..."):
        from consilience.cli.progress import Progress
        from consilience.paper import drawing
        from consilience.report.tables import frame_grid
        from consilience.workers.jobs import run_jobs

    if name == "fig3":
        print_written(drawing.draw_class_distributions(scale, numbers[0], folder))
        return
    if name in TOYS:
        with console.status(TOYS[name]):
            claims, paths = drawing.draw_toy(name, numbers[0], folder)
        for claim in claims:
            verdict = "holds" if claim.holds else "[bold]does not hold[/bold]"
            console.print(f"- {claim.expectation} {verdict}: {claim.measured}", highlight=False)
        print_written(paths)
        return
    chosen = artefact(name)
    jobs = chosen.jobs(scale, numbers, folder)
    console.print(f"[bold]{chosen.title}[/bold], scale {scale}\nExpected: {chosen.expectation}", highlight=False)
    try:
        rounds, label = max(job.settings.run.rounds for job in jobs), lambda job: f"{job.folder.parts[-3]} {job.method}"
        with Progress(console, rounds, len(jobs), label) as progress:
            done = run_jobs(jobs, workers, progress.show)
    except KeyboardInterrupt:
        end_stopped("the same command")
    runs = list(zip(jobs, done, strict=True))
    table = chosen.tabulate(runs)
    table.to_csv(folder / f"{name}.csv", index=False)
    console.print(frame_grid(table, chosen.title).for_screen())
    for sentence in chosen.check(table):
        console.print(f"- {sentence}", highlight=False)
    print_written([folder / f"{name}.csv", *drawing.draw(name, table, runs, folder)])
