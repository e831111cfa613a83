"""Experiments: run, compare, report, presets."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consilience.base.errors import ConsilienceError
from consilience.base.registry import user_file_location
from consilience.cli.common_options import (
    RUNS,
    Changes,
    DataDir,
    EqualCompute,
    Log,
    Out,
    Overwrite,
    Resume,
    Source,
    Workers,
    chosen_loggers,
    chosen_settings,
    console,
    parsed_changes,
    print_list,
    print_report,
    run_folder,
    run_with_progress,
    same_command,
    set_data_dir,
)

if TYPE_CHECKING:
    from consilience.experiments.compare import Comparison
    from consilience.runtime.callbacks import Callback
    from consilience.runtime.run import Run


def run(
    source: Source = None,
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random; short for --set seed=N.")] = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
    log: Log = None,
    watch: Annotated[bool, typer.Option("--watch", help="Serve the report while the run is under way.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Run one experiment: a method, and beside it the agents alone and with naive trust.

    Without arguments: ten agents with five kinds of models read handwritten digits, two of them with wrong labels.
    Writes a run folder with the settings, metrics, trust matrices, checkpoints and a report to open in a browser.

    Examples:

      consilience run

      consilience run digits-mlp --seed 3 --set rounds=20 --out runs/mine

      consilience run --resume --out runs/mine
    """
    with console.status("Loading ..."):
        from consilience.experiments.run import run_experiment
        from consilience.methods import check_rounds
        from consilience.report.page import write_page
        from consilience.runtime.run import claim_folder, last_folder, next_folder, remove_unbegun
        from consilience.settings.presets import run_name, settings_of
        from consilience.settings.settings import changed, load_plugins

    set_data_dir(data_dir)
    loggers = chosen_loggers(log)
    asked = parsed_changes(changes, seed)
    if resume and source is None:
        name = run_name("", str(asked.get("data.dataset", asked.get("dataset", ""))))
        folder = out or last_folder(RUNS, name)
    if resume and source is None and folder.is_dir():
        load_plugins(asked)
        settings = changed(settings_of(folder), asked)
    else:
        settings = chosen_settings(source, changes, seed)
        name = run_name(source or "", settings.data.dataset)
        folder = out or (last_folder(RUNS, name) if resume else next_folder(RUNS, name))
    check_rounds(settings.method, settings.run.rounds)
    claim_folder(folder, resume, overwrite)
    served: Any = nullcontext()
    if watch:
        from consilience.report.live import Watch

        served = Watch(folder)
        console.print(f"Watch it at {served.address}", soft_wrap=True, highlight=False)

    def work(callbacks: "list[Callback]") -> "tuple[Run, Path]":
        with served:
            finished = run_experiment(settings, folder, workers, callbacks)
            return finished, write_page(finished, folder / "report.html")

    runs = 1 + len(settings.run.references)
    how = f"consilience run --resume --out {folder}"
    try:
        finished, page = run_with_progress(work, settings.run.rounds, runs, loggers, how)
    except ConsilienceError:
        if not resume:
            remove_unbegun(folder)
        raise
    _print_run(finished)
    console.print(f"Report: {page}", soft_wrap=True, highlight=False)


def compare(
    source: Source = None,
    methods: Annotated[
        str,
        typer.Option(help="Names, with options in brackets, such as fedprox(mu=0.1). Known: {methods}."),
    ] = "consensus,paper,static,naive,alone",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-4 or 1,3,5.")] = "0-4",
    score: Annotated[
        str,
        typer.Option(help="A column of metrics.parquet. Default: the task's first score, NAME_target."),
    ] = "",
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...", help="Sweep over the values of a setting; given twice, over all pairs, and so on."
        ),
    ] = None,
    equal_compute: EqualCompute = False,
    changes: Changes = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
    log: Log = None,
    data_dir: DataDir = None,
) -> None:
    """Compare methods over seeds, on identical splits and initial models.

    Prints the mean over agents with good labels on the target domain and at home, that of their home models, the worst
    agent, the gain over training alone and the difference to the first method,
    with paired 95 % confidence intervals, and how many samples passed through the models: forward
    and back, and forward only, all agents and rounds together. Writes the same as compare.html, with
    plots, compare.md, compare.tex and compare.csv.

    Example:

      consilience compare digits --methods consensus,paper,naive,alone --seeds 0-4

      consilience compare digits-mlp --methods consensus --grid lam=0.1,0.5,1 --grid alpha=0.1,1 --seeds 0-4
    """
    with console.status("Loading ..."):
        from consilience.experiments.axes import parse_axis, parse_seeds, plan
        from consilience.experiments.compare import compare as run_all
        from consilience.experiments.compare import summarise
        from consilience.methods import check_rounds, method_named
        from consilience.report import sweep
        from consilience.report.compare import verdicts, write_compare
        from consilience.report.tables import compare_grid
        from consilience.settings.presets import run_name, write_config

    set_data_dir(data_dir)
    settings, loggers = chosen_settings(source, changes, None), chosen_loggers(log)
    chosen, numbers, axes = split_names(methods), parse_seeds(seeds), [parse_axis(text) for text in grid or []]
    for method in chosen:
        check_rounds(method_named(method, settings.method), settings.run.rounds)
    if equal_compute and grid:
        raise ConsilienceError("--equal-compute is for methods, and not for --grid. Leave one of them out.")
    runs, stem = len(plan(settings, chosen, numbers, axes)), run_name(source or "", settings.data.dataset)
    folder = run_folder(f"compare-{stem}", out, resume, overwrite)
    write_config(settings, folder)

    def work(callbacks: "list[Callback]") -> "Comparison":
        return run_all(settings, chosen, numbers, folder, workers, callbacks, equal_compute, axes)

    compared = run_with_progress(work, settings.run.rounds, runs, loggers, same_command(folder))
    if axes:
        console.print(sweep.grid(compared, score))
        for sentence in sweep.sentences(compared, score):
            console.print(f"- {sentence}", highlight=False)
        title = f"{stem}: {', '.join(axis.key for axis in axes)}"
        print_report(sweep.write_sweep(compared, folder, title, score))
        return
    column = score or compared.default_score
    console.print(compare_grid(summarise(compared, score), column, len(numbers), compared.higher_is_better(column)))
    for sentence in verdicts(compared, score):
        console.print(f"- {sentence}", highlight=False)
    print_report(write_compare(compared, score, folder, f"{stem}: methods over {len(numbers)} seeds"))


def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="plugins=FILE.py", help="A plugin, for a run whose task comes from one."),
    ] = None,
) -> None:
    """Print the tables of a finished run and write its report.html again."""
    with console.status("Loading ..."):
        from consilience.report.page import write_page
        from consilience.report.theory import findings
        from consilience.runtime.run import load_run
        from consilience.settings.settings import load_plugins

        load_plugins(parsed_changes(changes, None))
        finished = load_run(folder)
    try:
        page = write_page(finished, folder / "report.html")
        _print_run(finished)
        sentences = findings(finished)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        if user_file_location(error):
            raise
        raise ConsilienceError(
            f"the run in {folder} cannot be shown: its files do not fit together ({type(error).__name__}: {error}). "
            "Run it again."
        ) from error
    for sentence in sentences:
        console.print(f"- {sentence}", highlight=False)
    console.print(f"Report: {page}", soft_wrap=True, highlight=False)


def presets(
    source: Source = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="List every setting as `run` would have it, with its meaning.")
    ] = False,
    changes: Changes = None,
) -> None:
    """List the presets, or with --settings everything that can be set.

    The settings are those that are in force with the same preset or file and the same --set for `run` and `compare`.

    Examples:

      consilience presets --settings

      consilience presets --settings --set dataset=patients.csv --set label=diagnosis --set data.agent=hospital
    """
    from consilience.settings.presets import preset_names, preset_text

    if settings or source or changes:
        chosen = chosen_settings(source, changes, None)
        console.print(chosen.to_toml(), end="", highlight=False, markup=False, soft_wrap=True)
        return
    print_list({name: preset_text(name).splitlines()[0].removeprefix("# ") for name in preset_names()})


def _print_run(finished: "Run") -> None:
    from consilience.report.gains import verdicts
    from consilience.report.home import calibration_grid, home_grid, home_sentences
    from consilience.report.tables import means_grid, run_grid, scores_grid, weights_sentence

    for sentence in (*finished.summary.wrong_on_purpose, *verdicts(finished), *home_sentences(finished)):
        console.print(sentence, highlight=False)
    grids = (run_grid(finished), means_grid(finished), scores_grid(finished))
    for grid in (*grids, home_grid(finished), calibration_grid(finished)):
        if grid is not None:
            console.print("", grid, sep="\n")
    console.print()
    console.print(weights_sentence(finished), highlight=False)


def split_names(text: str) -> list[str]:
    """Names separated by commas; a comma in brackets separates options.

    >>> split_names("paper, fedprox(mu=0.1, keep_optimizer=true),alone")
    ['paper', 'fedprox(mu=0.1, keep_optimizer=true)', 'alone']
    """
    names, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            names.append("")
        else:
            names[-1] += sign
    return [name.strip() for name in names if name.strip()]


def datasets() -> None:
    """List the datasets: what they are, their licence, and where they come from."""
    from consilience.data.catalogue import CATALOGUE, how_to_get
    from consilience.report.tables import Grid

    rows = [(name, entry.what, entry.licence, how_to_get(entry)) for name, entry in CATALOGUE.items()]
    console.print(Grid("Datasets", ("name", "what", "licence", "where"), rows, words=4))


Host = Annotated[
    str, typer.Option(help="Address to serve at. Other machines can reach any address except this machine's own.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")]


def watch(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A run, a comparison or a site, finished or not; or a site.toml.")
    ],
    host: Host = "127.0.0.1",
    port: Port = 0,
    once: Annotated[bool, typer.Option("--once", help="Of a site.toml: print the states once.")] = False,
) -> None:
    """Serve the report of a run that has not ended, also of another process, and keep it up to date.

    Of a site.toml: the states of all members of the federation, which this site asks for over its carrier. Only this
    machine can reach the page, at an address that holds a token. Ctrl-C ends it, and not the run.

    Example:

      consilience watch runs/digits-1

      consilience watch site.toml
    """
    if folder.suffix == ".toml":
        from consilience.cli.watch import watch_members

        watch_members(folder, host, port, once)
        return
    with console.status("Loading ..."):
        from consilience.report.live import Watch

    with Watch(folder, host, port) as page:
        console.print(f"Watch it at {page.address}", soft_wrap=True, highlight=False)
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            return
