"""A page that lives."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from consilience.cli.common_options import console

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
        _watch_members(folder, host, port, once)
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


def _watch_members(site_file: Path, host: str, port: int, once: bool) -> None:
    with console.status("Loading ..."):
        from consilience.federation.consortium import FIRST, Consortium
        from consilience.federation.site import load_site
        from consilience.report.consortium import ConsortiumPage, states_grid

        loaded = load_site(site_file)
        name, consortium = loaded.federation.name, Consortium(loaded)
    try:
        if once:
            console.print(states_grid(name, consortium.look(FIRST)))
            return
        page = ConsortiumPage(consortium, name, host, port)
        console.print(f"Watch it at {page.address}", soft_wrap=True, highlight=False)
        with suppress(KeyboardInterrupt):
            while True:
                consortium.look()
        page.close()
    finally:
        consortium.close()
