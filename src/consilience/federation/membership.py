"""Founding a federation: each site makes its keys, and one of them writes the file that all agree on."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consilience.agents.backbones.names import PACKAGED, is_backbone
from consilience.agents.models.backbones import backbone_named
from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.base.options import differences, flat, meanings, to_table
from consilience.base.rows import Rows, count
from consilience.data.crossed import why_not
from consilience.data.files import read_features, split_names
from consilience.federation.peers import keys
from consilience.federation.peers.approval import with_signature, with_signatures_of
from consilience.federation.peers.federation import (
    Federation,
    Member,
    check_address,
    check_method,
    check_name,
    default_quorum,
    fingerprint,
)
from consilience.federation.peers.untrusted_input import read_federation, read_member
from consilience.federation.site import Site, read_site
from consilience.settings.heads import tables_for_heads
from consilience.settings.settings import Settings, agreed, changed, settings_from

VALID = timedelta(days=365)
"""How long a new federation file is valid."""


def make_keys(
    folder: Path,
    agent: str,
    address: str,
    authority: Path | None = None,
    samples: int = 0,
    entries: Site | None = None,
) -> list[Path]:
    """A site's folder: keys/signing.key and encryption.key, the public member.toml, and a site.toml.

    Args:
        folder: The folder.
        agent: The site's name.
        address: host:port where peers reach it; empty if it does not listen.
        authority: A CA for trials, which is made if it does not exist; then there are keys/tls.key, tls.crt and ca.crt.
        samples: Private samples to declare.
        entries: The content of site.toml, if there is none yet; None for a forest on patients.csv.
    """
    check_name(agent)
    if address:
        check_address(address, "the address")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "keys").mkdir(mode=0o700, exist_ok=True)
    private = [folder / "keys" / "signing.key", folder / "keys" / "encryption.key"]
    public = keys.new_signing_key(private[0]), keys.new_encryption_key(private[1])
    member = Member(agent, *public, address, samples)
    written = [*private, folder / "member.toml", folder / "site.toml"]
    if authority is not None:
        if keys.trial_authority(authority):
            written.append(authority / "ca.key")
        keys.issue_certificate(authority, folder / "keys", agent, member.host or "localhost")
        written += [folder / "keys" / "tls.key", folder / "keys" / "tls.crt"]
    write_atomically(folder / "member.toml", toml.dump(to_table(member)).encode())
    if not (folder / "site.toml").exists():
        default = Site(agent, shared="shared.csv", model="forest", data="patients.csv", standardise=True)
        write_site(folder / "site.toml", entries or default)
    return written


def write_site(path: Path, site: Site) -> None:
    """Writes a site.toml with every entry there is, and its meaning."""
    write_atomically(path, toml.dump(to_table(site), meanings(site)).encode())


def new_federation(
    name: str,
    shared: Path,
    classes: Sequence[str],
    members: Sequence[Path],
    settings: Settings | dict[str, Any],
    deadline: float,
    quorum: int | None = None,
    on_suspicion: str = "warn",
    start_wait: float = 3600.0,
    task: str = "classification",
    crossed: int = 0,
    backbone: str = "",
    expires: str = "",
) -> Federation:
    """A federation of the members whose public files are given.

    Args:
        name: The federation's name.
        shared: The file of the shared data.
        classes: Names of classes, labels or values, in order.
        members: The member.toml of every site.
        settings: Settings, of which those are taken that a federation agrees on; or changes of the default settings.
        deadline: Seconds after which a round closes without those who are missing.
        quorum: Agents needed in a round; None for the smallest safe number.
        on_suspicion: warn or exclude.
        start_wait: Seconds in which all members are waited for before round 1.
        task: classification, regression or multilabel.
        crossed: Rows that every site crosses from the shared data.
        backbone: The model of all members, if it is one backbone: rows are then crossed among its features.
        expires: The last day on which a run begins or resumes; without one it is a year from now.
    """
    if isinstance(settings, dict):
        settings = _changed_settings(settings, backbone, task)
    check_method(settings.method)
    x, columns = read_features(shared)
    check_holds_no_labels(shared, x, columns, classes, members)
    problem = why_not(x) if crossed and not backbone else ""
    if problem:
        raise ConsilienceError(f"{shared}: the shared data cannot be crossed: {problem}. Leave out --crossed.")
    if backbone and not is_backbone(backbone):
        raise ConsilienceError(f"{backbone!r} is no backbone. There are {', '.join(PACKAGED)} and hf:FOLDER.")
    roster = tuple(read_member(path) for path in members)
    return Federation(
        name=name,
        id=secrets.token_hex(8),
        classes=tuple(classes),
        shared_samples=count(x),
        shared=fingerprint(x),
        deadline=deadline,
        quorum=default_quorum(len(roster)) if quorum is None else quorum,
        settings=agreed(settings),
        roster=roster,
        on_suspicion=on_suspicion,
        start_wait=start_wait,
        task=task,
        crossed=crossed,
        backbone=backbone_named(backbone).fingerprint if backbone else "",
        expires=expires or (datetime.now(UTC) + VALID).date().isoformat(),
    )


def sign_federation(file: Path, site: Path, copies: Sequence[Path] = ()) -> Federation:
    """Adds a site's signature, and those of other copies, to a federation file.

    Args:
        file: The federation file, which is changed.
        site: The site's site.toml.
        copies: Copies of the file that others have signed.
    """
    own = read_site(site)
    federation = with_signatures_of(read_federation(file), map(read_federation, copies))
    federation = with_signature(federation, own.agent, keys.read_signing_key(site.parent / own.signing_key))
    write_atomically(file, federation.to_toml().encode())
    return federation


def _changed_settings(changes: dict[str, Any], backbone: str, task: str) -> Settings:
    """The default settings with changes, which must be of settings that a federation agrees on.

    Where all members have one backbone, the default is that of heads (`settings/heads.py`).
    """
    settings = changed(Settings(), changes, "settings")
    if is_backbone(backbone):
        asked = to_table(changed(settings, {"agents.models": [backbone], "data.task": task}))
        settings = changed(settings_from(tables_for_heads(asked), "settings"), changes, "settings")
    differing = differences(to_table(Settings()), to_table(settings))
    known = flat(agreed(settings)) | flat(agreed(Settings()))
    others = [key for key in differing if key not in known]
    if others:
        raise ConsilienceError(f"{others[0]!r} is not for a federation to agree on. Settings are: {', '.join(known)}.")
    return settings


def check_holds_no_labels(
    path: Path, x: Rows, columns: Sequence[str], classes: Sequence[str], members: Sequence[Path]
) -> None:
    """Refuses shared data with a column of labels: models would learn from it, and new samples do not have it."""
    labels = {Site.label, *(name for member in members for name in _label_beside(member))}
    for column in columns:
        reason, words = "", _words(x, column)
        if column in labels:
            reason = "is the label of a member"
        elif column in classes:
            reason = "is called like one of `--classes`"
        elif words and words <= set(classes):
            reason = f"holds the class names {', '.join(sorted(words))}"
        if reason:
            raise ConsilienceError(
                f"{path}: the column {column!r} {reason}. Shared data have no labels: remove the column, or, if it "
                "holds no labels, write it as numbers."
            )


def _words(x: Rows, column: str) -> set[str]:
    """The different values of a column that holds no numbers."""
    return set(x[column].dropna().map(str)) if hasattr(x, "iloc") and x[column].dtype.kind not in "iuf" else set()


def _label_beside(member: Path) -> list[str]:
    """The label columns in the site.toml beside a member.toml, if there is one."""
    path = member.with_name("site.toml")
    return split_names(str(toml.read(path).get("label", ""))) if path.is_file() else []
