"""The command that measures the robustness of trust rules to attackers."""

from typing import TYPE_CHECKING, Annotated

import typer

from consilience.cli.common_options import (
    Changes,
    DataDir,
    Out,
    Overwrite,
    Resume,
    Source,
    Workers,
    chosen_settings,
    console,
    print_list,
    print_report,
    run_folder,
    run_with_progress,
    same_command,
    set_data_dir,
)

if TYPE_CHECKING:
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
