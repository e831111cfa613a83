"""One organisation's part of a federation: its site.toml, and everything that this names, read and checked."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consilience import toml
from consilience.data.files import read_features
from consilience.errors import ConsilienceError
from consilience.federation.peers import keys
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.federation import Federation, check_address, fingerprint
from consilience.federation.peers.inbox import Say
from consilience.federation.peers.link import Tls
from consilience.federation.peers.mesh import Mesh
from consilience.federation.peers.outside import read_federation
from consilience.federation.preprocess import preprocessing, scaled
from consilience.options import Options, from_table, option
from consilience.privacy.options import Privacy
from consilience.rows import Rows, count
from consilience.settings.settings import Settings

MODEL = "model"
"""The folder of the trained model, in the run folder."""


@dataclass(frozen=True)
class Site(Options):
    """The content of site.toml, which `consilience keys` writes. Paths are relative to that file."""

    agent: str = option(meaning="the name in the roster")
    federation: str = option("federation.toml", "the federation file; paths are relative to the folder of this file")
    shared: str = option("shared.npz", "the shared data: npz (x), npy, csv, parquet, or a folder of images")
    out: str = option("run", "the run folder")
    signing_key: str = option("keys/signing.key", "signs what is published")
    tls_key: str = option("keys/tls.key", "the private key of the TLS certificate")
    tls_certificate: str = option("keys/tls.crt", "the TLS certificate")
    ca: str = option("keys/ca.crt", "the CA that all members' certificates come from")
    listen: str = option("", "host:port to listen at, where that is not the address in the roster")
    python: str = option("", "a Python file with a function make_agent(name, classes, seed) that returns the agent")
    model: str = option("", "or a built-in model, with `data`: logistic, forest, boosting, mlp, cnn, ...")
    data: str = option("", "private training data: npz (x, y), csv, parquet, or a folder of images for each class")
    label: str = option("label", "the column of `data` that holds the label; several, with commas between, for more")
    test: str = option("", "private test data in the same form; without it a fifth of `data`")
    target: str = option("", "labelled data of the target domain, if the site has some, to measure on")
    standardise: bool = option(False, "scale features by mean and deviation of the shared data")
    baseline: bool = option(True, "train a copy alone beside the agent, so that the gain is known; it stays here")
    preprocess: str = option(
        "", "table: words and gaps as numbers, as in the shared data (by itself if these have such) | a Python file"
    )
    side: int = option(0, "height and width that images are brought to; 0 for their own", at_least=0)
    device: str = option("cpu", "where a built-in torch model trains: cpu | cuda", one_of=("cpu", "cuda"))
    answer_to: tuple[str, ...] = option(("*",), "peers whom `consilience answer` answers; * is all of them, [] nobody")
    answer_rows: int = option(1000, "samples of which each peer may ask in a day", at_least=0)
    ledger: str = option("", "folder of the privacy ledgers, kept as long as the data; default: ~/.local/state/...")
    other_ledgers: tuple[str, ...] = option((), "ledgers of this site that are of other rows than `data`, by name")
    privacy: Privacy = option(Privacy(), "what the site promises its private rows")


@dataclass(frozen=True)
class Prepared:
    """Everything a site needs, read and checked."""

    site: Site
    folder: Path
    federation: Federation
    settings: Settings
    shared: Rows
    columns: list[str]
    """Names of the shared data's columns, if they have any."""
    tls: Tls
    read: Callable[[Rows], Any] | None = None
    """Makes numbers of rows, where that is asked for or needed."""

    def features(self, x: Rows) -> Any:
        """Samples as the site's model takes them."""
        if self.read is not None:
            return self.read(x)
        return scaled(x, self.shared) if self.site.standardise else x

    def path(self, name: str) -> Path:
        """A path in site.toml."""
        return self.folder / name

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.path(self.site.out)

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.out / MODEL

    def audit(self, out: Path) -> AuditLog:
        """The site's log in a run folder."""
        return AuditLog(out / "audit.jsonl", keys.read_signing_key(self.path(self.site.signing_key)))

    def mesh(self, out: Path, audit: AuditLog, say: Say, listen: str | None = None, role: str = "agent") -> Mesh:
        """The site's place among its peers."""
        place = self.site.listen or self.federation.member(self.site.agent).address
        place = place if listen is None else listen
        signing = keys.read_signing_key(self.path(self.site.signing_key))
        return Mesh(
            self.federation,
            self.site.agent,
            signing,
            self.tls,
            out,
            audit,
            say,
            place,
            role,
            self.folder / "change.toml",
        )


def prepare(path: Path) -> Prepared:
    """Reads site.toml and what it names, and checks that this site is the one in the roster."""
    site = read_site(path)
    folder = path.parent
    federation = read_federation(folder / site.federation)
    member = federation.member(site.agent)
    signing = folder / site.signing_key
    tls = Tls(*((folder / name).resolve() for name in (site.tls_key, site.tls_certificate, site.ca)))
    for secret in (signing, tls.key):
        _check_private(secret)
    if keys.public_key(keys.read_signing_key(signing)) != member.key:
        raise ConsilienceError(
            f"{signing} is not the key that the federation file has for {site.agent}. "
            "Use the key whose public part is there, or agree on a new file."
        )
    certificate = keys.read_certificate(tls.certificate)
    if certificate.name != member.certificate:
        raise ConsilienceError(
            f"{tls.certificate} is the certificate of {certificate.name!r}, but the federation file has "
            f"{member.certificate!r} for {site.agent}."
        )
    problem = certificate.problem(datetime.now(UTC))
    if problem:
        raise ConsilienceError(f"the certificate {tls.certificate} {problem}. Get a new one from your CA.")
    keys.read_certificate(tls.authority)
    shared, columns = read_features(folder / site.shared)
    if fingerprint(shared) != federation.shared:
        raise ConsilienceError(
            f"the shared data in {folder / site.shared} are not those of the federation file "
            f"({fingerprint(shared)[:12]} instead of {federation.shared[:12]}, {count(shared)} samples). "
            "All sites need the same samples in the same order; get the file again."
        )
    settings = replace(federation.agreed, run=replace(federation.agreed.run, device=site.device))
    settings = replace(settings, agents=replace(settings.agents, privacy=site.privacy))
    if site.preprocess or site.side:
        shared, _ = read_features(folder / site.shared, table=bool(site.preprocess) or None, side=site.side)
    read = preprocessing(site.preprocess, folder, shared, built_in=bool(site.model))
    return Prepared(site, folder, federation, settings, shared, columns, tls, read)


def read_site(path: Path) -> Site:
    """The content of a site.toml."""
    site = from_table(Site, toml.read(path, advice="`consilience keys` writes one."), str(path))
    if bool(site.python) == bool(site.model):
        raise ConsilienceError(f"{path}: name either a file `python` that makes the agent, or a built-in `model`.")
    if site.listen:
        check_address(site.listen, f"{path}: `listen`")
    return site


def _check_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConsilienceError(f"the key {path} cannot be read: {error.strerror}.") from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConsilienceError(f"the private key {path} can be read by others. Run: chmod 600 {path}")
