"""The command `relay`: passes sealed messages on between sites that only dial out."""

from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from consilience.base.errors import ConsilienceError
from consilience.cli.site import print_of


def relay(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where sites reach it, such as 0.0.0.0:443.")],
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="FEDERATION", help="A federation file, or the `id` in it. Once for each federation."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="Its TLS certificate.")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of that certificate.")] = None,
    trial_ca: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For trials: a CA that issues its certificate; made if missing."),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="HOST", help="For trials: the host in its certificate. Default: that of --listen.")
    ] = "",
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Let in only sites with a certificate of this CA.")
    ] = None,
) -> None:
    """Pass messages on between sites whose firewalls let nothing in. It runs until Ctrl-C.

    Sites dial out to it (`carrier = "relay"` in site.toml). It needs no data and no member's keys: messages are signed
    and sealed end to end. It sees who talks to whom, when, and padded sizes.

    Examples:

      consilience relay --listen 0.0.0.0:443 --allow federation.toml --certificate relay.crt --key relay.key

      consilience relay --listen 0.0.0.0:7447 --name relay.example --allow federation.toml --trial-ca relay-ca
    """
    from consilience.federation.peers.relay import Relay, federation_id, trial_certificate

    if trial_ca is not None:
        key, certificate = trial_certificate(trial_ca, name or listen.rpartition(":")[0])
    if key is None or certificate is None:
        raise ConsilienceError("a relay needs a TLS certificate: give --certificate and --key, or --trial-ca.")
    federations = [federation_id(text) for text in allow or ()]
    running = Relay(listen, federations, key, certificate, ca)
    say = print_of("relay")
    say(f"listening at {listen} for {', '.join(federations)}; end with Ctrl-C")
    with suppress(KeyboardInterrupt):
        Event().wait()
    running.close()
    say(f"ended; {running.turned_away} connections were turned away")
