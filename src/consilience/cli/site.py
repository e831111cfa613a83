"""The commands of a site: check, run, predict, answer, log; init is in site_init."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilience.base.errors import ConsilienceError
from consilience.cli.common_options import console
from consilience.cli.models import For, PredictionsFile, Samples, Sets, sets_for, write_predictions

if TYPE_CHECKING:
    from consilience.federation.peers.firewall import Route
    from consilience.federation.peers.site_check import Finding

SiteFile = Annotated[Path, typer.Option("--site", metavar="FILE", help="This site's site.toml.")]


def check(
    site_file: SiteFile = Path("site.toml"),
    seconds: Annotated[float, typer.Option(help="How long to wait for answers.")] = 8.0,
    wait: Annotated[
        str, typer.Option(metavar="TIME", help="Wait so long until all peers were reached, such as 90s, 10m or 1h.")
    ] = "",
) -> None:
    """Check this site and its peers before a run. Peers answer while their `site run` or `site check` runs.

    Sites that start it with --wait within that time of each other all see each other.

    Example:

      consilience site check --wait 10m
    """
    import tempfile

    patience = seconds_in(wait) if wait else seconds
    with console.status("Asking peers ..."):
        from consilience.federation.peers.firewall import routes
        from consilience.federation.peers.site_check import examine, is_own_process, own_certificate_problem
        from consilience.federation.site import load_site
        from consilience.federation.site_agent import check_agent_of

        loaded = load_site(site_file)
        check_agent_of(loaded)
        member, tls = loaded.federation.member(loaded.site.agent), loaded.tls
        revoked, port, taken = loaded.changes.revoked, "is free", ""
        direct = loaded.site.carrier == "direct"
        certificate = own_certificate_problem(member.host, tls) if direct else ""
        with tempfile.TemporaryDirectory() as scratch:
            audit = loaded.audit(Path(scratch))
            try:
                exchange = loaded.exchange(Path(scratch), audit, lambda text: None, role="check")
            except ConsilienceError as error:
                exchange = loaded.exchange(Path(scratch), audit, lambda text: None, listen="", role="check")
                own = is_own_process(loaded.listen, member, tls)
                port, taken = "is in use by another process of this site", "" if own else str(error)
            try:
                findings = examine(loaded.federation, member.agent, tls, exchange, patience, revoked, direct)
            finally:
                exchange.close()
                audit.close()
        needed = routes(loaded.network, loaded.federation, member.agent, taken)
    say = print_of(member.agent)
    if direct:
        say(f"own port: {taken}" if taken else f"own port: {loaded.listen} {port}")
        say(f"own certificate: {certificate or 'accepted with the CA'}")
    for name in revoked:
        say(f"{name} was revoked by a quorum, and is not asked")
    _print_routes(loaded.site.carrier, needed)
    _print_findings(member.agent, findings, direct)
    if certificate or any(route.problem for route in needed) or not all(finding.good for finding in findings):
        sys.exit(1)


def run(
    site_file: SiteFile = Path("site.toml"),
    serve: Annotated[
        bool, typer.Option("--serve", help="When finished, answer until every peer has finished, too.")
    ] = False,
) -> None:
    """Take part in a federation with this site's own data and model.

    After an interruption the same command resumes: the site goes on from its last round, or in the current round of
    its peers. A site that has finished answers its peers for one more deadline; a peer that comes later needs others
    that --serve.
    """
    os.umask(0o077)  # the files of a run are for their owner alone
    with console.status("Loading ..."):
        from consilience.federation.site import load_site
        from consilience.federation.site_run import run_site, serve_site, site_has_finished
        from consilience.report.gains import verdicts
        from consilience.report.home import advice, home_sentences
        from consilience.report.page import write_page
        from consilience.report.tables import site_grid
        from consilience.runtime.run import load_run

        loaded = load_site(site_file)
    say = print_of(loaded.site.agent)
    if site_has_finished(loaded):
        finished = load_run(loaded.out)
        say(f"this run is finished: {loaded.out}")
        if serve:
            try:
                serve_site(loaded, say)
            except KeyboardInterrupt:
                sys.exit(130)
    else:
        from consilience.report.progress import Lines

        lines = Lines(say, loaded.settings.run.rounds)
        try:
            finished = run_site(loaded, say, [lines], serve, advice)
        except KeyboardInterrupt:
            say("stopped. Every finished round is saved; the same command goes on.")
            sys.exit(130)
    page = write_page(finished, loaded.out / "report.html")
    for sentence in (*verdicts(finished), *home_sentences(finished), *finished.summary.incidents):
        console.print(sentence, highlight=False, markup=False)
    console.print(site_grid({loaded.site.agent: finished}))
    print_plain(f"Report: {page}")


def seconds_in(text: str) -> float:
    """A time with its unit, in seconds.

    >>> [seconds_in(text) for text in ("45", "90s", "10m", "1.5 h")]
    [45.0, 90.0, 600.0, 5400.0]
    """
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]+)?) *([smh]?)", text.strip())
    if not match:
        raise ConsilienceError(f"{text!r} is no time. Write it as 90s, 10m or 1h.")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def log(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder of the site.")],
    peers: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PEER...]", help="Peers' run folders, or files of their folder `published`."),
    ] = None,
) -> None:
    """Check whether a site's audit log is whole, cut or rewritten.

    Every line is signed and holds the hash of the line before it, so a change shows. Peers' files prove that the end
    was not cut off: give their run folders, or the file run/published/receipts of one of them.
    """
    from consilience.federation.verify import verify_log

    verdict = verify_log(run_folder, peers or [])
    print_plain(f"{verdict.state}: {verdict.reason} ({verdict.lines} lines, {verdict.receipts} receipts).")
    sys.exit(0 if verdict.state == "whole" else 1)


def _print_routes(carrier: str, needed: "list[Route]") -> None:
    from rich.table import Table

    table = Table(title=f"carrier {carrier}: what a firewall must allow (TCP)", title_justify="left")
    for column in ("direction", "host", "port", "for", "now"):
        table.add_column(column)
    for route in needed:
        table.add_row(route.direction, route.host, route.port, route.purpose, route.problem or route.state)
    console.print(table)


def _print_findings(me: str, findings: "list[Finding]", direct: bool) -> None:
    from rich.table import Table

    table = Table(
        title=f"{me}: own files in order, and its agent predicts the shared data. Its peers:", title_justify="left"
    )
    for column in ("peer", "reachable", "certificate", "clock", "federation file and shared data"):
        table.add_column(column)
    for finding in findings:
        until = f"valid until {finding.certificate.ends:%Y-%m-%d %H:%M} UTC" if finding.certificate else "-"
        table.add_row(
            finding.agent,
            finding.reachable or (f"yes, {finding.address}" if direct else "yes" if finding.answered else "no"),
            finding.certificate_problem or until,
            "-" if finding.clock is None else f"{finding.clock:+.2f} s",
            finding.federation or ("same" if finding.answered else "no answer"),
        )
    console.print(table)


def print_plain(text: str) -> None:
    """Prints a line as it is: not wrapped, coloured or read as markup."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def print_of(who: str) -> Callable[[str], None]:
    """What prints a line of a site, with its name."""
    return lambda text: print_plain(f"{who}: {text}")


def predict(
    samples: Samples,
    site_file: SiteFile = Path("site.toml"),
    collective: Annotated[
        bool, typer.Option("--collective", help="Ask the peers who answer as well. They see these samples.")
    ] = False,
    out: PredictionsFile = Path("predictions.csv"),
    at: For = "",
    sets: Sets = 0.0,
) -> None:
    """Predict with the model that this site's part in a federation has improved.

    By default it is the home model, for the site's own domain; --for target is for elsewhere.

    With --collective the site sends the samples to its peers, who answer if they run `consilience site answer`, and
    mixes all predictions by its trust. The columns part_NAME say how far each one counts.

    Examples:

      consilience site predict new-patients.csv

      consilience site predict new-patients.csv --sets 0.9

      consilience site predict new-patients.csv --site site.toml --collective
    """
    with console.status("Predicting ..."):
        if collective:
            from consilience.federation.remote_prediction_client import ask_peers
            from consilience.federation.site import load_site

            loaded = load_site(site_file)
            answers = ask_peers(loaded, samples, print_plain)
            write_predictions(answers.predictions, loaded.federation.classes, out, answers)
        else:
            from consilience.federation.model import predict_site

            f, names, calibration = predict_site(site_file, samples, at)
            write_predictions(f, names, out, sets=sets_for(calibration, f, at or "home", sets))
    print_plain(f"Written: {out}")


def answer(
    site_file: SiteFile = Path("site.toml"),
) -> None:
    """Answer peers who ask for this site's predictions (`consilience site predict --collective`).

    It runs until Ctrl-C, after `consilience site run` has finished. `answer_to` and `answer_rows` in site.toml say
    whom and how much. answered.jsonl in the run folder is the log of what left the site.
    """
    with console.status("Loading ..."):
        from consilience.federation.remote_prediction_server import answer_peers
        from consilience.federation.site import load_site

        loaded = load_site(site_file)
    say = print_of(loaded.site.agent)
    try:
        answer_peers(loaded, say)
    except KeyboardInterrupt:
        say("stopped answering")
