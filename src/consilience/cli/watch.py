"""A page that lives."""

import time
from pathlib import Path
from typing import Annotated

import typer

from consilience.cli.common_options import console

Host = Annotated[
    str, typer.Option(help="Address to serve at. Other machines can reach any address except this machine's own.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 for any that is free.")]


def watch(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run, a comparison or a site, finished or not.")],
    host: Host = "127.0.0.1",
    port: Port = 0,
) -> None:
    """Serve the report of a run that has not ended, also of another process, and keep it up to date.

    Only this machine can reach the page, at an address that holds a token. Ctrl-C ends it, and not the run.

    Example:

      consilience watch runs/digits-1
    """
    with console.status("Loading ..."):
        from consilience.report.live import Watch

    with Watch(folder, host, port) as page:
        console.print(f"Watch it at {page.address}", soft_wrap=True, highlight=False)
        try:
            while True:
                time.sleep(1)
        except KeyboardInterrupt:
            return
