"""The command line: parse, call one function, print. Heavy modules are imported only when a command runs."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from consilience import cli_federation
from consilience.errors import ConsilienceError

if TYPE_CHECKING:
    from consilience.experiments.settings import Settings
    from consilience.runtime.run import Run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Collaborative learning via prediction consensus: agents with private data and models of any kind make "
        "each other better by exchanging predictions on shared unlabelled data. No data and no weights are sent.\n\n"
        "Start with [bold]consilience run[/bold]."
    ),
)
console = Console()
RUNS = Path("runs")

Source = Annotated[
    str | None,
    typer.Argument(metavar="[PRESET | FILE.toml]", help="A preset (see `consilience presets`) or a TOML file."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be given often. Example: --set lam=1"),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where to write. Default: runs/NAME-1, ...")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")]
Workers = Annotated[
    int,
    typer.Option(
        min=0,
        help="Processes; runs go side by side, or agents of one are spread. Default: as many as pay off, of the cores.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="Real data, laid out as on the hub. Default: $CONSILIENCE_DATA."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run folder.")]


@app.command()
def run(
    source: Source = None,
    changes: Changes = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random; short for --set seed=N.")] = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
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
        from consilience.cli_progress import Progress
        from consilience.experiments.folders import claim_folder, last_folder, next_folder, settings_of
        from consilience.experiments.run import run_experiment
        from consilience.experiments.settings import DEFAULT, changed

    _set_data_dir(data_dir)
    name = Path(source or DEFAULT).stem
    folder = out or (last_folder(RUNS, name) if resume else next_folder(RUNS, name))
    if resume and source is None and folder.is_dir():
        settings = changed(settings_of(folder), _changes(changes, seed), "--set")
    else:
        settings = _settings(source, changes, seed)
    claim_folder(folder, resume, overwrite)
    try:
        with Progress(console, settings.rounds, 1 + len(settings.references), lambda job: job.method) as progress:
            finished = run_experiment(settings, folder, workers, progress.show)
    except KeyboardInterrupt:
        _stopped(f"consilience run --resume --out {folder}")
    from consilience.report.page import write_page

    page = write_page(finished, folder / "report.html")
    _print_run(finished)
    console.print(f"Report: {page}", soft_wrap=True, highlight=False)


@app.command()
def compare(
    source: Source = None,
    methods: Annotated[
        str, typer.Option(help="dynamic, static, every-K, naive, alone.")
    ] = "dynamic,static,naive,alone",
    seeds: Annotated[str, typer.Option(help="Numbers and ranges, such as 0-4 or 1,3,5.")] = "0-4",
    score: Annotated[str, typer.Option(help="A column of metrics.parquet. Default: accuracy_target.")] = "",
    changes: Changes = None,
    out: Out = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    workers: Workers = 0,
    data_dir: DataDir = None,
) -> None:
    """Compare methods over seeds, on identical splits and initial models.

    Prints the mean over agents with good labels, the worst agent, the gain over training alone and the difference
    to the first method, with paired 95 % confidence intervals. Writes the same as compare.md, compare.tex and
    compare.csv.

    Example:

      consilience compare digits --methods dynamic,naive,alone --seeds 0-4
    """
    with console.status("Loading ..."):
        from consilience.cli_progress import Progress
        from consilience.experiments.compare import compare as run_all
        from consilience.experiments.compare import parse_seeds, summarise
        from consilience.experiments.folders import claim_folder, last_folder, next_folder
        from consilience.experiments.settings import DEFAULT
        from consilience.report.tables import compare_grid

    _set_data_dir(data_dir)
    settings = _settings(source, changes, None)
    chosen, numbers = [m.strip() for m in methods.split(",") if m.strip()], parse_seeds(seeds)
    name = f"compare-{Path(source or DEFAULT).stem}"
    folder = out or (last_folder(RUNS, name) if resume else next_folder(RUNS, name))
    for method in chosen:
        settings.algorithm(method)
    claim_folder(folder, resume, overwrite)
    try:
        runs, label = len(chosen) * len(numbers), lambda job: f"{job.method}, seed {job.settings.seed}"
        with Progress(console, settings.rounds, runs, label) as progress:
            table = run_all(settings, chosen, numbers, folder, workers, progress.show)
    except KeyboardInterrupt:
        _stopped(f"the same command, with --resume --out {folder}")
    default = "rmse_target" if "rmse_target" in table else "accuracy_target"
    grid = compare_grid(summarise(table, score or default), score or default, len(numbers))
    (folder / "compare.md").write_text(f"{grid.title}\n\n{grid.markdown()}")
    (folder / "compare.tex").write_text(grid.latex())
    table.to_csv(folder / "compare.csv", index=False)
    console.print(grid.for_screen())
    console.print(f"Written: {folder}/compare.md, compare.tex, compare.csv", soft_wrap=True, highlight=False)


@app.command()
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
        from consilience.experiments.reproduce import ARTEFACTS, TOYS, artefact

    if name is None:
        _list({"fig3": "Fig. 3: class distributions among agents"} | TOYS | {one.name: one.title for one in ARTEFACTS})
        return
    _set_data_dir(data_dir)
    folder, numbers = out / scale, parse_seeds(seeds)
    with console.status("Loading ..."):
        from consilience.cli_progress import Progress
        from consilience.experiments.jobs import run_jobs
        from consilience.report import artefacts
        from consilience.report.tables import frame_grid

    if name == "fig3":
        _written(artefacts.draw_class_distributions(scale, numbers[0], folder))
        return
    if name in TOYS:
        with console.status(TOYS[name]):
            claims, paths = artefacts.draw_toy(name, numbers[0], folder)
        for claim in claims:
            verdict = "holds" if claim.holds else "[bold]does not hold[/bold]"
            console.print(f"- {claim.expectation} {verdict}: {claim.measured}", highlight=False)
        _written(paths)
        return
    chosen = artefact(name)
    jobs = chosen.jobs(scale, numbers, folder)
    console.print(f"[bold]{chosen.title}[/bold], scale {scale}\nExpected: {chosen.expectation}", highlight=False)
    try:
        rounds, label = max(job.settings.rounds for job in jobs), lambda job: f"{job.folder.parts[-3]} {job.method}"
        with Progress(console, rounds, len(jobs), label) as progress:
            done = run_jobs(jobs, workers, progress.show)
    except KeyboardInterrupt:
        _stopped("the same command")
    runs = list(zip(jobs, done, strict=True))
    table = chosen.tabulate(runs)
    table.to_csv(folder / f"{name}.csv", index=False)
    console.print(frame_grid(table, chosen.title).for_screen())
    for sentence in chosen.check(table):
        console.print(f"- {sentence}", highlight=False)
    _written([folder / f"{name}.csv", *artefacts.draw(name, table, runs, folder)])


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
) -> None:
    """Print the tables of a finished run and write its report.html again."""
    with console.status("Loading ..."):
        from consilience.report.page import write_page
        from consilience.report.theory import findings
        from consilience.runtime.run import load_run

        finished = load_run(folder)
        page = write_page(finished, folder / "report.html")
    _print_run(finished)
    for sentence in findings(finished):
        console.print(f"- {sentence}", highlight=False)
    console.print(f"Report: {page}", soft_wrap=True, highlight=False)


@app.command()
def presets(
    settings: Annotated[bool, typer.Option("--settings", help="List every setting with its default.")] = False,
) -> None:
    """List the presets, or with --settings everything that can be set."""
    from consilience.experiments.settings import Settings, preset_names, preset_text

    if settings:
        console.print(Settings().to_toml(), end="", highlight=False, markup=False, soft_wrap=True)
        return
    _list({name: preset_text(name).splitlines()[0].removeprefix("# ") for name in preset_names()})


app.command()(cli_federation.keys)
app.command()(cli_federation.agent)
app.command()(cli_federation.doctor)
app.command()(cli_federation.predict)
app.add_typer(cli_federation.federation, name="federation")


def main() -> None:
    """The program. Errors that the user can mend are one sentence; Ctrl-C and a request to end are no errors."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _under_torchrun() if "RANK" in os.environ else app()
    except ConsilienceError as error:
        _fail(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}. Rounds that were finished are saved; mend this and use --resume.")
    except KeyboardInterrupt:
        sys.exit(130)


def _under_torchrun() -> None:
    """Of the processes that torchrun started, the first one does what the user asked for, and the others its work."""
    from consilience.experiments.jobs import under_torchrun

    if not under_torchrun():
        app()
    from consilience.experiments.cluster import dismiss, follow

    if os.environ["RANK"] != "0":
        follow()
        return
    try:
        app()
    except SystemExit as end:
        if not end.code:
            dismiss()
        raise


def _list(entries: dict[str, str]) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, meaning in entries.items():
        table.add_row(f"[bold]{name}[/bold]", meaning)
    console.print(table, highlight=False)


def _written(paths: "list[Path]") -> None:
    console.print(f"Written: {', '.join(str(path) for path in paths)}", soft_wrap=True, highlight=False)


def _set_data_dir(folder: Path | None) -> None:
    if folder is not None:
        if not folder.is_dir():
            raise ConsilienceError(f"--data-dir {folder} is not a folder.")
        os.environ["CONSILIENCE_DATA"] = str(folder.resolve())


def _changes(changes: list[str] | None, seed: int | None) -> dict[str, Any]:
    from consilience.experiments.settings import parse_change

    return dict(parse_change(text) for text in changes or []) | ({} if seed is None else {"seed": seed})


def _settings(source: str | None, changes: list[str] | None, seed: int | None) -> "Settings":
    from consilience.experiments.settings import DEFAULT, read_settings

    return read_settings(source or DEFAULT, _changes(changes, seed))


def _print_run(finished: "Run") -> None:
    from consilience.report.tables import means_grid, run_grid, weights_sentence

    console.print(run_grid(finished).for_screen())
    console.print(means_grid(finished).for_screen())
    console.print(weights_sentence(finished), highlight=False)


def _stopped(how: str) -> NoReturn:
    console.print(f"Stopped. Every finished round is saved. Go on with: {how}", soft_wrap=True, highlight=False)
    sys.exit(130)


def _fail(message: str) -> NoReturn:
    from rich.markup import escape

    Console(stderr=True).print(f"[bold red]error:[/bold red] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(2)
