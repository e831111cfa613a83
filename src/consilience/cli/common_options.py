"""What commands share: where they print, how options are called, and how they end."""

import os
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from consilience.base.errors import ConsilienceError
from consilience.base.files import DATA_VARIABLE

if TYPE_CHECKING:
    from consilience.runtime.callbacks import Callback
    from consilience.settings.settings import Settings


def printable(text: str) -> str:
    """A text in which characters that would change the screen, and not stand on it, are spelled out.

    >>> printable("one\\x1b[2Jtwo")
    'one\\\\x1b[2Jtwo'
    """
    if text.isprintable():
        return text
    signs = (sign if sign in "\n\t" or unicodedata.category(sign)[0] != "C" else repr(sign)[1:-1] for sign in text)
    return "".join(signs)


class Screen(Console):
    """A console that prints texts as they are: names come from files of others, and have no markup or escapes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text as it is printed, also within tables."""
        return super().render_str(printable(text), **options)


Result = TypeVar("Result")
console = Screen()
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
        help="Processes for runs, or for the agents of one run. Default: chosen automatically, at most one per core.",
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="FOLDER", help="Real data, laid out as on the hub. Default: $CONSILIENCE_DATA."),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="NAME:WHERE",
        help="Log every round, such as tensorboard:logs, mlflow:logs or wandb:logs; may be given often.",
    ),
]
EqualCompute = Annotated[
    bool,
    typer.Option(
        "--equal-compute",
        help="Methods that train on fewer samples go on for as many more rounds as the costliest one leaves room for.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing run folder.")]


def chosen_loggers(texts: list[str] | None) -> "list[Callback]":
    if not texts:
        return []
    from consilience.runtime.loggers import logger

    return [logger(text) for text in texts]


def print_list(entries: dict[str, str]) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, meaning in entries.items():
        table.add_row(Text(printable(name), style="bold"), meaning)
    console.print(table, highlight=False)


def print_written(paths: "list[Path]") -> None:
    console.print(f"Written: {', '.join(str(path) for path in paths)}", soft_wrap=True, highlight=False)


def print_report(written: "list[Path]") -> None:
    """Says where the results of many runs are, and which file is the page."""
    print_written([path for path in written if path.suffix != ".html"])
    page = next(path for path in written if path.suffix == ".html")
    console.print(f"Report: {page}", soft_wrap=True, highlight=False)


def set_data_dir(folder: Path | None) -> None:
    if folder is not None:
        if not folder.is_dir():
            raise ConsilienceError(f"--data-dir {folder} is not a folder.")
        os.environ[DATA_VARIABLE] = str(folder.resolve())


def parsed_changes(changes: list[str] | None, seed: int | None) -> dict[str, Any]:
    from consilience.settings.settings import parse_change

    return dict(parse_change(text) for text in changes or []) | ({} if seed is None else {"run.seed": seed})


def chosen_settings(source: str | None, changes: list[str] | None, seed: int | None) -> "Settings":
    """The settings that the user asks for. Prints which settings of a preset do not apply to the user's own data."""
    from consilience.data.loading import check_there, is_path
    from consilience.settings.presets import left_out, read_settings

    settings = read_settings(source or "", parsed_changes(changes, seed))
    if is_path(settings.data.dataset):
        check_there(Path(settings.data.dataset))
    unused = left_out(source or "", settings)
    if unused:
        console.print(unused, highlight=False, markup=False, soft_wrap=True)
    return settings


def run_folder(name: str, out: Path | None, resume: bool, overwrite: bool) -> Path:
    """The folder in which a command with this name writes its runs, claimed for it."""
    from consilience.runtime.run import claim_folder, last_folder, next_folder

    return claim_folder(out or (last_folder(RUNS, name) if resume else next_folder(RUNS, name)), resume, overwrite)


def run_with_progress(
    work: "Callable[[list[Callback]], Result]", rounds: int, runs: int, loggers: "list[Callback]", resume: str
) -> "Result":
    """The result of `work`, which is given the callbacks; `resume` says how to go on after an interruption."""
    from consilience.report.progress import Progress

    try:
        with Progress(console, rounds, runs) as progress:
            return work([progress, *loggers])
    except KeyboardInterrupt:
        console.print(f"Stopped. Every finished round is saved. Go on with: {resume}", soft_wrap=True, highlight=False)
        sys.exit(130)


def same_command(folder: Path) -> str:
    """How to go on with what a command has begun in a folder."""
    return f"the same command, with --resume --out {folder}"


def end_with_error(message: str) -> NoReturn:
    text = Text.assemble(("error:", "bold red"), f" {printable(message)}")
    Screen(stderr=True).print(text, highlight=False, soft_wrap=True)
    sys.exit(2)
