"""The command that measures privacy leaks."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from consilience.cli.common_options import DataDir, console, print_written, set_data_dir


def privacy_audit(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of finished runs.")],
    data_dir: DataDir = None,
) -> None:
    """Measure how much the released predictions of finished runs leak about private rows.

    Tells members from others with a student of the released predictions and with the models themselves, guesses the
    classes of private data and, if the run had canaries (--set canaries=40), bounds epsilon from below. Ends with an
    error if that is more than the run claims. Writes audit.json, and a section of report.html. Of several runs, such
    as the seeds of a comparison, prints their joint results.

    Examples:

      consilience privacy-audit runs/digits-mlp-1

      consilience privacy-audit runs/compare-digits-mlp-1/seed-*/consensus
    """
    from consilience.report.progress import Steps

    with Steps(console) as steps:
        from consilience.audit.audit import audit_run
        from consilience.report.page import write_page
        from consilience.report.privacy import attack_grid, audit_sentences, class_grid, several_grid
        from consilience.runtime.run import load_run

        set_data_dir(data_dir)
        results = []
        for folder in folders:
            results.append(audit_run(folder, partial(steps.tell, str(folder))))
            write_page(load_run(folder), folder / "report.html")
    grids = [attack_grid(results[0]), class_grid(results[0])] if len(results) == 1 else [several_grid(results)]
    for grid in grids:
        console.print(grid)
    for folder, result in zip(folders, results, strict=True):
        for sentence in audit_sentences(result):
            console.print(f"- {f'{folder}: ' if len(results) > 1 else ''}{sentence}", highlight=False)
    if len(results) == 1:
        print_written([folders[0] / name for name in ("audit.json", "report.html")])
    else:
        console.print(f"Written: audit.json and report.html in each of the {len(results)} folders", highlight=False)
    if any(result.broken for result in results):
        sys.exit(1)
