"""Privacy: what it costs, and what leaked."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from consilience.cli.screen import (
    RUNS,
    Changes,
    DataDir,
    Out,
    Overwrite,
    Resume,
    Source,
    Workers,
    chosen_settings,
    console,
    end_stopped,
    print_written,
    set_data_dir,
)
from consilience.errors import ConsilienceError


def trade(
    source: Source = None,
    epsilons: Annotated[
        str, typer.Option(help="Budgets of privacy with commas between them; 0 for agents that promise nothing.")
    ] = "0,8,4,1",
    rounds: Annotated[str, typer.Option(help="Numbers of rounds, such as 5,10,15. Default: that of the preset.")] = "",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-4 or 1,3,5.")] = "0-4",
    changes: Changes = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
    data_dir: DataDir = None,
) -> None:
    """Accuracy against epsilon, alone and together, and the best number of rounds for each budget.

    More rounds cost budget: with the same epsilon every step gets more noise. Prints a table; writes trade.md, .csv and
    .svg. Finished runs are not run again.

    Example:

      consilience trade digits-mlp --epsilons 0,8,4,1 --rounds 6,10,15 --set agents.count=4
    """
    with console.status("Loading ..."):
        from consilience.cli.progress import Progress
        from consilience.experiments.compare import parse_seeds
        from consilience.experiments.trade import plan
        from consilience.experiments.trade import trade as run_all
        from consilience.report.trade import sentences, trade_grid, write_trade
        from consilience.runtime.folders import claim_folder, last_folder, next_folder
        from consilience.settings.presets import DEFAULT

    set_data_dir(data_dir)
    settings = chosen_settings(source, changes, None)
    numbers = parse_seeds(rounds, "rounds") if rounds else [settings.run.rounds]
    name = f"trade-{Path(source or DEFAULT).stem}"
    folder = out or (last_folder(RUNS, name) if resume else next_folder(RUNS, name))
    asked = settings, _numbers(epsilons), numbers, parse_seeds(seeds), folder
    jobs = plan(*asked)
    claim_folder(folder, resume, overwrite)
    try:
        with Progress(console, max(numbers), len(jobs)) as progress:
            found = run_all(*asked, workers, [progress])
    except KeyboardInterrupt:
        end_stopped(f"the same command, with --resume --out {folder}")
    console.print(trade_grid(found).for_screen())
    for sentence in sentences(found):
        console.print(f"- {sentence}", highlight=False)
    print_written(write_trade(found, folder))


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


def _numbers(text: str) -> list[float]:
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConsilienceError(f"epsilons {text}: write numbers with commas between them, such as 0,8,4,1.") from None
    return list(dict.fromkeys(found))
