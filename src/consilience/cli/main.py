"""The program: its commands, and its exit. Heavy modules are imported only when a command runs."""

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from consilience.base.errors import ConsilienceError, sentence_of
from consilience.base.registry import user_file_location
from consilience.cli import federation, measures, models, relay, reproduce, runs, site, site_init
from consilience.cli.common_options import end_with_error
from consilience.cli.signals import install_signal_handlers, leave, was_asked


class _PlainFlags:
    """Help that shows no type beside options that take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As of every command."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class _Group(_PlainFlags, TyperGroup):
    """A group of commands."""


app = typer.Typer(
    cls=_Group,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Collaborative learning via prediction consensus: agents with private data and models of any kind improve "
        "each other by exchanging predictions on shared unlabelled data. No data and no weights are sent.\n\n"
        "Start with [bold]consilience run[/bold]."
    ),
)


class _Command(_PlainFlags, TyperCommand):
    """A command whose help names all methods in place of `{methods}`. They are imported only when help is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """As of every command."""
        for parameter in self.params:
            if "{methods}" in (getattr(parameter, "help", None) or ""):
                from consilience.methods import method_names

                parameter.help = parameter.help.format(methods=", ".join(method_names()))  # type: ignore[attr-defined]
        paragraphs = (self.help or "").split("\n\n")
        self.help = "\n\n".join(text if text.startswith(" ") else text.replace("\n", " ") for text in paragraphs)
        super().format_help(ctx, formatter)


_GROUPS: dict[str, list[Callable[..., None]]] = {
    "Experiments": [
        runs.run,
        runs.compare,
        measures.robustness,
        measures.ensemble,
        measures.privacy_audit,
        reproduce.reproduce,
    ],
    "Results": [runs.report, runs.watch],
    "Models": [models.export, models.predict],
    "Lists": [runs.presets, runs.datasets],
}
"""The commands, as the help groups them."""
_SITE: list[Callable[..., None]] = [
    site_init.init,
    site.check,
    site.run,
    site.predict,
    site.answer,
    site.log,
]
"""The commands of one organisation."""
_site = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="One organisation's part in a federation.")
_SITES = "Between organisations"
_FIRST_STEPS = """\
Agents with private data and models of any kind improve each other by exchanging
predictions. Three first steps:

  consilience run
      Ten agents learn to read digits together; writes a report (half a minute).
  consilience federation demo
      Four sites as four processes on this machine, from keys to reports.
  consilience run --set dataset=patients.csv --set label=diagnosis
      The same as the first with a table of your own.

All commands: consilience --help"""


@app.callback()
def _program(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"consilience {version_of('consilience')}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(_FIRST_STEPS)


for _group, _commands in _GROUPS.items():
    for _command in _commands:
        app.command(rich_help_panel=_group)(_command)
for _command in _SITE:
    _site.command()(_command)
app.add_typer(_site, name="site", cls=_Group, rich_help_panel=_SITES)
app.add_typer(federation.federation, name="federation", cls=_Group, rich_help_panel=_SITES)
app.command(rich_help_panel=_SITES)(relay.relay)
for _part in (app, _site, federation.federation):
    for _registered in _part.registered_commands:
        _registered.cls = _Command


def main() -> None:
    """Runs the program. Errors that the user can fix are one sentence; Ctrl-C and SIGTERM are not errors."""
    install_signal_handlers()
    try:
        _under_torchrun() if "RANK" in os.environ else app()
    except ConsilienceError as error:
        end_with_error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if was_asked():
            sys.exit(130)
        message = user_file_location(error)
        if message:
            end_with_error(message)
        if isinstance(error, OSError):
            end_with_error(sentence_of(error))
        raise
    finally:
        leave()


def _under_torchrun() -> None:
    """Under torchrun the first process runs the command, and the others are its workers."""
    from consilience.workers.jobs import under_torchrun

    if not under_torchrun():
        app()
    from consilience.workers.torchrun import dismiss, follow

    if os.environ["RANK"] != "0":
        follow()
        return
    try:
        app()
    except SystemExit as end:
        if not end.code:
            dismiss()
        raise
