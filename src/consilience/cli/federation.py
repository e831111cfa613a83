"""The commands of a federation: its file, changes of its roster, and a trial on one machine."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from consilience.base.errors import ConsilienceError
from consilience.cli.common_options import RUNS, DataDir, console, set_data_dir
from consilience.cli.site import SiteFile, print_plain

if TYPE_CHECKING:
    from consilience.federation.peers.change import Change
    from consilience.federation.peers.federation import Federation
    from consilience.federation.peers.signed_changes import SignedChanges

federation = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="A federation of organisations.")


@federation.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The federation's name.")],
    members: Annotated[list[Path], typer.Argument(metavar="MEMBER...", help="The member.toml of every site.")],
    shared: Annotated[Path, typer.Option(metavar="FILE", help="Shared data: npz (x), npy, csv, parquet, or images.")],
    classes: Annotated[str, typer.Option(help="Names of classes, labels or values in order, separated by commas.")],
    task: Annotated[str, typer.Option(help="classification, regression or multilabel.")] = "classification",
    deadline: Annotated[float, typer.Option(help="Seconds after which a round closes without the missing.")] = 600.0,
    quorum: Annotated[
        int | None, typer.Option(help="Agents needed in a round. Default: as few as are safe, about two thirds.")
    ] = None,
    start_wait: Annotated[
        float, typer.Option(help="Seconds in which all are waited for before round 1; then a quorum begins.")
    ] = 3600.0,
    on_suspicion: Annotated[
        str, typer.Option(help="A peer that repeats itself, another or us: warn, or exclude it from that round.")
    ] = "warn",
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as rounds=20.")
    ] = None,
    crossed: Annotated[int, typer.Option(min=0, help="Rows that every site crosses from the shared data.")] = 0,
    backbone: Annotated[
        str, typer.Option(metavar="MODEL", help="The backbone of all sites: rows are crossed among its features.")
    ] = "",
    expires: Annotated[
        str, typer.Option(metavar="DATE", help="Last day on which a run begins or resumes. Default: in a year.")
    ] = "",
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write.")] = Path("federation.toml"),
) -> None:
    """Write the federation file that every site holds in the same form.

    A quorum of its members signs it (`consilience federation sign`) before it is valid.

    Example:

      consilience federation new heart */member.toml --shared shared.csv --classes healthy,ill --set rounds=20
    """
    from consilience.base.files import write_atomically
    from consilience.federation.membership import new_federation
    from consilience.settings.settings import parse_change

    if out.exists():
        raise ConsilienceError(f"{out} exists and is not overwritten. Choose another --out.")
    names = [name.strip() for name in classes.split(",")]
    changed = dict(parse_change(text) for text in changes or [])
    more = (deadline, quorum, on_suspicion, start_wait, task, crossed, backbone, expires)
    agreed = new_federation(name, shared, names, members, changed, *more)
    write_atomically(out, agreed.to_toml().encode())
    print_plain(
        f"Written: {out}, for {len(agreed.roster)} sites, quorum {agreed.quorum}, valid until {agreed.expires}. "
        f"Identity: {agreed.identity().hex()[:16]}. So many sign it as are a quorum (consilience federation sign); "
        "then give every site this file and the shared data."
    )


@federation.command("next")
def next_epoch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")] = Path("federation.toml"),
    site: SiteFile = Path("site.toml"),
    expires: Annotated[
        str, typer.Option(metavar="DATE", help="A new last day. The file then has a new version, for a quorum to sign.")
    ] = "",
) -> None:
    """Write the next epoch into the federation file, for a new run of the same federation.

    Every site does this with its own copy. What was signed in a run of an earlier epoch is not valid later. The command
    fails while the file lacks a change of the roster that a quorum signed: `federation apply` writes it.
    """
    from dataclasses import replace

    from consilience.base.files import write_atomically
    from consilience.federation.peers.untrusted_input import read_federation

    before = read_federation(file)
    changes = _signed_changes(before, file, site)
    if changes.unapplied:
        raise ConsilienceError(
            f"a quorum has signed a change of the roster that is not in {file} "
            f"({'; '.join(change.describe() for change in changes.unapplied)}). Write it into the file, which then "
            "has the next epoch: consilience federation apply."
        )
    changes.check_roster()
    after = replace(before, epoch=before.epoch + 1)
    if expires:
        after = replace(after, expires=expires, version=after.version + 1, signatures={})
    write_atomically(file, after.to_toml().encode())
    print_plain(f"{file}: epoch {after.epoch}. Identity: {after.identity().hex()[:16]}")
    if expires:
        print_plain(
            f"Version {after.version}, valid until {expires}: {after.quorum} members sign it before it is valid."
        )


@federation.command("change")
def change(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")],
    remove: Annotated[list[str] | None, typer.Option(metavar="AGENT", help="A member to revoke.")] = None,
    member: Annotated[
        list[Path] | None, typer.Option(metavar="MEMBER", help="A member.toml with new keys, or of a new member.")
    ] = None,
    site: SiteFile = Path("site.toml"),
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write.")] = Path("change.toml"),
) -> None:
    """Propose a change of the roster, signed with this site's key: a member is revoked, or has new keys.

    The others add their signatures with `federation sign`. When a quorum has signed, sites put the file beside their
    site.toml, where a running agent applies it at once: revoked members are not heard any more. `federation apply`
    writes the federation file of the next epoch.
    """
    from consilience.federation.peers.change import Change
    from consilience.federation.peers.untrusted_input import read_federation, read_member

    if out.exists():
        raise ConsilienceError(f"{out} exists and is not overwritten. Choose another --out.")
    agreed = read_federation(file)
    for name in remove or []:
        agreed.member(name)
    members = tuple(read_member(path) for path in member or [])
    _write_signed(Change(agreed.identity().hex(), tuple(remove or ()), members, {}), file, site, out)


@federation.command("sign")
def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")] = Path("federation.toml"),
    proposed: Annotated[
        Path | None, typer.Argument(metavar="[CHANGE]", help="A change.toml to sign instead of the file itself.")
    ] = None,
    site: SiteFile = Path("site.toml"),
    copies: Annotated[
        list[Path] | None, typer.Option("--from", metavar="FILE", help="A copy of the file that others have signed.")
    ] = None,
) -> None:
    """Add this site's signature to a federation file, or to a change of its roster. Read it first.

    Example:

      consilience federation sign federation.toml --from from-bob/federation.toml
    """
    from consilience.federation.membership import sign_federation
    from consilience.federation.peers.approval import signers
    from consilience.federation.peers.untrusted_input import read_change

    if proposed is not None:
        _write_signed(read_change(proposed), file, site, proposed)
        return
    signed = sign_federation(file, site, copies or [])
    print_plain(f"{file}: signed by {', '.join(signers(signed))}; {signed.quorum} are needed.")


@federation.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The federation file.")],
    proposed: Annotated[
        Path | None, typer.Argument(metavar="[CHANGE]", help="The change.toml that a quorum signed.")
    ] = None,
    site: SiteFile = Path("site.toml"),
) -> None:
    """Write a change that a quorum signed into the federation file, in its next epoch. Every site does the same.

    Other changes of this file that a quorum signed are written, too, if the site knows them. A new member has not seen
    the file before: for it, a quorum signs the new file with `federation sign`.
    """
    from consilience.base.files import write_atomically
    from consilience.federation.peers.approval import check_approved, remember
    from consilience.federation.peers.change import apply_changes
    from consilience.federation.peers.signed_changes import KEPT
    from consilience.federation.peers.untrusted_input import read_change, read_federation
    from consilience.federation.site import read_site

    if file.resolve().parents[1].name == KEPT:
        raise ConsilienceError(f"this site keeps {file} as proof, and never changes it. Copy it first.")
    before = read_federation(file)
    keys = (site.parent / read_site(site).signing_key).parent if site.exists() else None
    if keys is not None:
        check_approved(before, keys)
    changes = _signed_changes(before, file, site)
    if proposed is not None:
        change = read_change(proposed)
        change.check(before)
        changes.keep(change)
    if not changes.unapplied:
        raise ConsilienceError(f"no change that a quorum signed for {file} is known. {changes.problem}".rstrip())
    after = apply_changes(changes.unapplied, before)
    _signed_changes(after, file, site).check_roster()
    write_atomically(file, after.to_toml().encode())
    if keys is not None:
        remember(after, keys)
    identity = after.identity().hex()[:16]
    print_plain(f"{file}: {', '.join(after.names)}; quorum {after.quorum}, epoch {after.epoch}. Identity: {identity}")


def _signed_changes(agreed: "Federation", file: Path, site: Path) -> "SignedChanges":
    """The signed changes that the site keeps, if this is its machine, and those in change.toml beside its files."""
    from consilience.federation.peers.signed_changes import PROPOSED, SignedChanges
    from consilience.federation.site import read_site

    keys = (site.parent / read_site(site).signing_key).parent if site.exists() else None
    return SignedChanges(agreed, keys, [site.parent / PROPOSED, file.parent / PROPOSED])


def _write_signed(proposed: "Change", file: Path, site: Path, out: Path) -> None:
    from consilience.base.files import write_atomically
    from consilience.federation.peers.keys import read_signing_key
    from consilience.federation.peers.untrusted_input import read_federation
    from consilience.federation.site import read_site

    agreed, own = read_federation(file), read_site(site)
    changes = _signed_changes(agreed, file, site)
    changes.check_new_keys(proposed)
    signed = proposed.with_signature(agreed, own.agent, read_signing_key(site.parent / own.signing_key))
    write_atomically(out, signed.to_toml().encode())
    with suppress(ConsilienceError):  # until a quorum has signed it
        changes.keep(signed)
    print_plain(f"{out}: signed by {', '.join(signed.signers(agreed))}; {agreed.quorum} are needed.")


@federation.command("demo")
def demo(
    data_dir: DataDir = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to write. Default: runs/federation-1, ...")
    ] = None,
    carrier: Annotated[
        str,
        typer.Option(help="How sites reach each other: direct, relay (as root without a route between them), folder."),
    ] = "direct",
) -> None:
    """Run four sites as four processes on this machine, from keys to report.

    They are four hospitals with the heart-disease data, or four agents that read digits, each with another model.
    """
    from consilience.federation.demo import run_demo
    from consilience.runtime.run import next_folder

    set_data_dir(data_dir)
    out = out or next_folder(RUNS, "federation")
    with console.status("Making keys and data ...") as status:
        runs = run_demo(out, lambda who, text: print_plain(f"{who or 'demo'}: {text}"), status.stop, carrier)
    from consilience.report.tables import site_grid

    console.print(site_grid(runs))
    print_plain(f"Reports: {out}/SITE/run/report.html; audit logs: {out}/SITE/run/audit.jsonl")
