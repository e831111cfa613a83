"""The command `site init`: asks what a site needs, and writes its keys, site.toml and member.toml."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from consilience.base.errors import ConsilienceError
from consilience.cli.common_options import print_written


def init(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The site's name in the federation.")] = "",
    address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Direct links: where peers reach this site, which listens there.")
    ] = "",
    relay: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A relay, to which this site dials out. Or two.")
    ] = None,
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="A folder or bucket that all sites see: a path, or s3://...")
    ] = "",
    data: Annotated[str, typer.Option(metavar="FILE", help="The private data, such as patients.csv.")] = "",
    label: Annotated[str, typer.Option(metavar="COLUMN", help="The column with the label.")] = "",
    shared: Annotated[str, typer.Option(metavar="FILE", help="The shared data, such as shared.csv.")] = "",
    model: Annotated[str, typer.Option(help="A built-in model; or a Python file that makes the agent.")] = "",
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The CA of the relay or of all members; it is copied.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The site's folder. Default: AGENT.")] = None,
    trial_ca: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For trials: a CA that issues the TLS certificate; made if missing."),
    ] = None,
    samples: Annotated[
        int, typer.Option(metavar="N", help="Private samples to declare, for methods in which they are weights.")
    ] = 0,
) -> None:
    """Make a site's keys, site.toml and member.toml. On a terminal it asks for what the options do not say.

    Only you can read the private keys; they never leave. Send member.toml, which is public, to the member who writes
    the federation file. With direct links a site shows a certificate of its PKI, in keys/tls.crt.

    Examples:

      consilience site init cleveland --relay relay.example:443 --ca relay-ca.crt --data patients.csv --label diagnosis

      consilience site init cleveland --address cleveland.example:7447 --trial-ca trial-ca
    """
    from consilience.agents.backbones.names import is_backbone
    from consilience.federation.membership import make_keys
    from consilience.federation.site import Site

    asks = sys.stdin.isatty() and sys.stdout.isatty()

    def answer(given: str, question: str, default: str | None = None, option: str = "") -> str:
        if given or (not asks and default is not None):
            return given or str(default)
        if not asks:
            raise ConsilienceError(f"{question}? Without a terminal that is an option: {option}.")
        return str(typer.prompt(question, default=default)).strip()

    agent = answer(agent, "The site's name in the federation", option="consilience site init AGENT")
    relays, carrier = list(relay or ()), "direct" if address else "relay" if relay else "folder" if folder else ""
    carrier = answer(
        carrier,
        "How do messages travel (relay: this site only dials out; direct: peers reach it; folder: all see one)",
        "relay" if asks else None,
        "--relay HOST:PORT, --address HOST:PORT or --folder FOLDER",
    )
    if carrier == "relay" and not relays:
        relays = [answer("", "host:port of the relay")]
    folder = answer(folder, "The shared folder, a path or a URL") if carrier == "folder" else folder
    address = answer(address, "host:port where peers reach this site") if carrier == "direct" else address
    if asks and ca is None and trial_ca is None and carrier != "folder":
        path = typer.prompt("File with the CA's certificate (empty: later)", default="", show_default=False)
        ca = Path(path) if path else None
    data = answer(data, "File with the private data, as seen from the site's folder", "patients.csv")
    label = answer(label, "Its column with the label", "label")
    shared = answer(shared, "File with the shared data", "shared.csv")
    model = answer(model, "Model (logistic, forest, boosting, mlp, cnn, ...) or a Python file", "forest")
    entries = Site(agent, carrier=carrier, relay=tuple(relays), folder=folder, shared=shared, label=label)
    if model.endswith(".py"):
        entries = replace(entries, python=model)
    else:
        entries = replace(entries, model=model, data=data, standardise=not is_backbone(model))
    if ca is not None and not ca.is_file():
        raise ConsilienceError(f"{ca}, the certificate of the CA, does not exist.")
    home = out or Path(agent)
    written = make_keys(home, agent, address, trial_ca, samples, entries)
    if ca is not None:
        shutil.copyfile(ca, home / "keys" / "ca.crt")
        written.append(home / "keys" / "ca.crt")
    print_written(written)
    typer.echo(
        f"Send {home / 'member.toml'} to whoever writes the federation file. Put that file and the shared data beside "
        f"{home / 'site.toml'}; then run `site check`."
    )
