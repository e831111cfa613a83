"""Privacy: what leaked."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from consilience.cli.screen import DataDir, console, print_written, set_data_dir


def audit(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    data_dir: DataDir = None,
) -> None:
    """Attack a finished run: what does that which its agents release say of their private rows?

    Tells members from others with a student of the released predictions and with the models themselves, guesses the
    classes of private data and, if the run had canaries (--set canaries=40), bounds epsilon from below. Ends with an
    error if that is more than the run claims. Writes audit.json, and a section of report.html.

    Example:

      consilience audit runs/digits-mlp-1
    """
    with console.status("Attacking ..."):
        from consilience.audit.audit import audit_run
        from consilience.report.page import write_page
        from consilience.report.privacy import attack_grid, audit_sentences, class_grid
        from consilience.runtime.run import load_run

        set_data_dir(data_dir)
        found = audit_run(folder)
        page = write_page(load_run(folder), folder / "report.html")
    console.print(attack_grid(found).for_screen())
    console.print(class_grid(found).for_screen())
    for sentence in audit_sentences(found):
        console.print(f"- {sentence}", highlight=False)
    print_written([folder / "audit.json", page])
    if found.broken:
        sys.exit(1)
