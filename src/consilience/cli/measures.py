"""The commands that measure beyond single runs: robustness to attackers, collective prediction, privacy leaks."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilience.cli.common_options import (
    Changes,
    DataDir,
    EqualCompute,
    Out,
    Overwrite,
    Resume,
    Source,
    Workers,
    chosen_settings,
    console,
    print_list,
    print_report,
    print_written,
    run_folder,
    run_with_progress,
    same_command,
    set_data_dir,
)

if TYPE_CHECKING:
    from consilience.experiments.ensemble import CollectiveLine
    from consilience.experiments.robustness import Robustness
    from consilience.runtime.callbacks import Callback


def robustness(
    source: Source = None,
    attacks: Annotated[
        str,
        typer.Option(help="Names with commas between them, such as flip,echo,targeted(source=1, target=7); or all."),
    ] = "flip,collusion,echo,targeted",
    rules: Annotated[
        str,
        typer.Option(help="Trust rules, such as default,entropy,stratified(sharpness=4),median,kt-pfl."),
    ] = "entropy,stratified",
    attackers: Annotated[str, typer.Option(help="How many; numbers and ranges. None is always measured.")] = "0-4",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-4 or 1,3,5.")] = "0-4",
    changes: Changes = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
    data_dir: DataDir = None,
    known: Annotated[bool, typer.Option("--list", help="List the attacks there are.")] = False,
) -> None:
    """Accuracy of the honest agents against the number of attackers, per attack and trust rule.

    The last agents are the attackers. They see the predictions of all honest agents first, and may collude. Prints a
    table and where each rule fails; writes robustness.md, .csv, .svg and .html. Finished runs are not run again.

    Example:

      consilience robustness digits-mlp --attacks flip,echo,echo-each --rules entropy,stratified --attackers 0-4
    """
    with console.status("Loading ..."):
        from consilience.cli.runs import split_names
        from consilience.core.attacks import ATTACKS
        from consilience.experiments.axes import parse_seeds
        from consilience.experiments.robustness import plan, verdicts
        from consilience.experiments.robustness import robustness as run_all
        from consilience.report.robustness import class_grid, score_grid, write_robustness
        from consilience.settings.presets import run_name

    every = [name for name in ATTACKS.names() if name != "none"]
    if known:
        print_list({name: (ATTACKS.find(name).__doc__ or "").splitlines()[0] for name in every})
        return
    set_data_dir(data_dir)
    settings = chosen_settings(source, changes, None)
    chosen = [attack for name in split_names(attacks) for attack in (every if name == "all" else [name])]
    asked = (chosen, split_names(rules), parse_seeds(attackers, "attackers"), parse_seeds(seeds))
    jobs = len(plan(settings, *asked))
    stem = run_name(source or "", settings.data.dataset)
    folder = run_folder(f"robustness-{stem}", out, resume, overwrite)

    def work(callbacks: "list[Callback]") -> "Robustness":
        return run_all(settings, *asked, folder, workers, callbacks)

    results = run_with_progress(work, settings.run.rounds, jobs, [], same_command(folder))
    for grid in (score_grid(results, short=len(results.rules) > 3), class_grid(results)):
        if grid is not None:
            console.print(grid)
    for sentence in verdicts(results):
        console.print(f"- {sentence}", highlight=False)
    title = f"{stem}: robustness of trust rules to attackers"
    print_report(write_robustness(results, folder, title))


def ensemble(
    source: Source = None,
    methods: Annotated[str, typer.Option(help="Methods, as for compare; fedavg is there to compare with.")] = "paper",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-4 or 1,3,5.")] = "0-4",
    equal_compute: EqualCompute = False,
    changes: Changes = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
    data_dir: DataDir = None,
) -> None:
    """Measure collective prediction: the agents together, compared with the mean agent and the best one.

    Prints scores on the target domain over seeds, with paired 95 % intervals, and writes ensemble.md. The folder is
    that of a comparison. With FedAvg and the like all agents hold one model, whose prediction it is.

    Example:

      consilience ensemble digits-mlp --methods paper,fedavg --seeds 0-4
    """
    with console.status("Loading ..."):
        from consilience.cli.runs import split_names
        from consilience.experiments.axes import parse_seeds
        from consilience.experiments.ensemble import measure_collective
        from consilience.report.tables import collective_grid
        from consilience.settings.presets import run_name

    set_data_dir(data_dir)
    settings, chosen, numbers = chosen_settings(source, changes, None), split_names(methods), parse_seeds(seeds)
    folder = run_folder(f"ensemble-{run_name(source or '', settings.data.dataset)}", out, resume, overwrite)

    def work(callbacks: "list[Callback]") -> "tuple[str, list[CollectiveLine]]":
        return measure_collective(settings, chosen, numbers, folder, workers, callbacks, equal_compute)

    runs = len(chosen) * len(numbers)
    score, lines = run_with_progress(work, settings.run.rounds, runs, [], same_command(folder))
    table = collective_grid(lines, score, len(numbers))
    (folder / "ensemble.md").write_text(f"{table.title}\n\n{table.markdown()}")
    console.print(table)
    console.print(f"Written: {folder}/ensemble.md", soft_wrap=True, highlight=False)


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
