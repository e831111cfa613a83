"""One organisation's site: its site.toml and everything that it names, read and checked."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consilience.agents.backbones.names import is_backbone
from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, from_table, option
from consilience.base.rows import Rows, count
from consilience.data.columns import TYPES, holds_texts, read_columns
from consilience.data.files import read_features, split_names
from consilience.data.options import check_types
from consilience.export.inputs import Prepare
from consilience.federation.metrics import Metrics
from consilience.federation.outgoing import Outgoing
from consilience.federation.peers import keys
from consilience.federation.peers.approval import check_approved
from consilience.federation.peers.audit import AuditLog, Monitor
from consilience.federation.peers.federation import Federation, check_address, fingerprint
from consilience.federation.peers.inbox import Say
from consilience.federation.peers.network import CARRIERS, Network
from consilience.federation.peers.signed_changes import PROPOSED, SignedChanges
from consilience.federation.peers.site_exchange import Release, SiteExchange
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.peers.zenoh_config import Tls
from consilience.federation.preprocess import Fitted, preprocessing, scale_of
from consilience.federation.syslog import Syslog
from consilience.privacy.options import Privacy
from consilience.runtime.crossed_shared import with_crossed
from consilience.settings.settings import Settings

MODEL = "model"
"""The folder of the trained model in the run folder."""


@dataclass(frozen=True)
class Site(Options):
    """The content of site.toml, which `consilience site init` writes. Paths are relative to that file."""

    agent: str = option(meaning="the agent's name in the roster")
    federation: str = option("federation.toml", "the federation file; paths are relative to the folder of this file")
    shared: str = option("shared.npz", "the shared data: npz (x), npy, csv, parquet, or a folder of images")
    out: str = option("run", "the run folder")
    signing_key: str = option("keys/signing.key", "signs what is published")
    encryption_key: str = option("keys/encryption.key", "opens what peers seal for this site")
    carrier: str = option(
        "direct",
        "how messages travel: direct (links to peers) | relay (the site dials out only) | folder (files that all see)",
        one_of=CARRIERS,
    )
    relay: tuple[str, ...] = option((), "host:port of each relay; with direct links for peers that are not reached so")
    folder: str = option("", "the shared folder of the carrier `folder`: a path, or a URL such as s3://bucket/heart")
    tls_key: str = option("keys/tls.key", "the private key of the TLS certificate, for direct links")
    tls_certificate: str = option("keys/tls.crt", "the TLS certificate, for direct links; shown to relays if it exists")
    ca: str = option("keys/ca.crt", "the CA that certificates come from: of all members, or of the relays")
    listen: str = option("", "host:port to listen at, where that is not the address in the roster")
    python: str = option("", "a Python file with a function make_agent(name, classes, seed) that returns the agent")
    model: str = option("", "or a built-in model, with `data`: logistic, forest, boosting, mlp, cnn, ...")
    data: str = option("", "private training data: npz (x, y), csv, parquet, or a folder of images for each class")
    label: str = option("label", "the column of `data` that holds the label; several, with commas between, for more")
    test: str = option("", "private test data in the same form; without it a fifth of `data`")
    target: str = option("", "labelled data of the target domain, if the site has some, to measure on")
    standardise: bool = option(False, "scale features by mean and deviation of the shared data")
    baseline: bool = option(True, "also train a copy alone, to measure the gain of collaborating; it stays here")
    preprocess: str = option(
        "", "table: words and gaps become numbers, as in the shared data (default where they have such) | a Python file"
    )
    drop: tuple[str, ...] = option((), "columns that are not features")
    types: dict[str, str] = option({}, f"what columns hold, where it is recognised wrongly: NAME = {' | '.join(TYPES)}")
    side: int = option(0, "height and width to which images are resized; 0 keeps their own", at_least=0)
    device: str = option("cpu", "where a built-in torch model trains: cpu | cuda", one_of=("cpu", "cuda"))
    answer_to: tuple[str, ...] = option(
        ("*",), "peers that `consilience site answer` answers; * is all of them, [] nobody"
    )
    answer_rows: int = option(1000, "samples that each peer may ask about in a day", at_least=0)
    ledger: str = option("", "folder of the privacy ledgers, kept as long as the data; default: ~/.local/state/...")
    other_ledgers: tuple[str, ...] = option((), "names of this site's ledgers that are for other rows than `data`")
    privacy: Privacy = option(Privacy(), "privacy of the site's private rows")
    metrics: str = option("", "host:port at which `site run` serves /metrics for Prometheus and a check /health")
    syslog: str = option("", "where the lines of the audit log go, too: a socket such as /dev/log, or host:port (UDP)")
    outgoing: Outgoing = option(Outgoing(), "what of its predictions may leave the site")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_types(self.types)
        if is_backbone(self.model) and (self.as_table or self.standardise):
            raise ConsilienceError(
                f"the model {self.model!r} is a backbone, which reads raw rows. Leave out standardise, preprocess, "
                "drop and types."
            )
        if (self.drop or self.types) and (self.python or self.preprocess not in ("", "table")):
            raise ConsilienceError(
                "`drop` and `types` are for built-in models; the Python file decides how rows are read."
            )
        for address in self.relay:
            check_address(address, "`relay`: the relay")
        missing = {"relay": not self.relay, "folder": not self.folder}
        if missing.get(self.carrier):
            raise ConsilienceError(f'carrier = "{self.carrier}" needs the option `{self.carrier}`, too.')

    @property
    def as_table(self) -> bool:
        """Whether the data are read as a table, even if all columns are numbers."""
        return bool(self.preprocess or self.drop or self.types)


@dataclass(frozen=True)
class LoadedSite:
    """Everything a site needs, read and checked."""

    site: Site
    folder: Path
    federation: Federation
    settings: Settings
    shared: Rows
    columns: list[str]
    """Names of the shared data's columns, if they have any."""
    tls: Tls
    changes: SignedChanges
    """Revocations and new keys that a quorum of the members signed."""
    read: Callable[[Rows], Any] | None = None
    """Turns rows into numbers, where that is asked for or needed."""
    agreed: Rows = None
    """The shared data as all members read them, without this site's preprocessing."""

    def features(self, x: Rows) -> Any:
        """Samples as inputs of the site's model."""
        if self.read is not None:
            return self.read(x)
        return scale_of(self.shared)(x) if self.site.standardise else x

    def learned_rows(self) -> Any:
        """The shared rows and those that all sites cross from them, as inputs of the site's model."""
        seed, federation = self.settings.run.seed, self.federation
        return self.features(with_crossed(self.shared, federation.crossed, seed, [federation.backbone]))

    def prepare_steps(self) -> list[Prepare]:
        """Steps of an exported model that turn raw rows into inputs of the site's model."""
        if self.read is not None:
            return self.read.steps() if isinstance(self.read, Fitted) else [self.read]
        return [scale_of(self.shared)] if self.site.standardise else []

    def samples(self, path: Path) -> Rows:
        """The samples in a file, in the form in which all members read the shared data.

        Columns of a table that are not features in the shared data may be missing.
        """
        if not hasattr(self.agreed, "iloc"):
            return read_features(path, self.columns, table=False if self.columns else None, side=self.site.side)[0]
        sent = [column.name for column in read_columns(self.agreed) if column.used]
        words = [name for name in sent if holds_texts(self.agreed[name])]
        return read_features(path, sent, table=True, words=words)[0]

    def as_read(self, samples: Rows) -> Rows:
        """Samples in the form of all members, as a table if this site reads the shared data as one."""
        if not hasattr(self.shared, "iloc") or hasattr(samples, "iloc"):
            return samples
        import pandas as pd

        return pd.DataFrame(samples, columns=self.columns)

    def path(self, name: str) -> Path:
        """The path that site.toml gives as `name`."""
        return self.folder / name

    @property
    def keys(self) -> keys.SiteKeys:
        """The site's private keys."""
        encryption = keys.read_encryption_key(self.path(self.site.encryption_key))
        return keys.SiteKeys(keys.read_signing_key(self.path(self.site.signing_key)), encryption)

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.path(self.site.out)

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.out / MODEL

    @property
    def listen(self) -> str:
        """The address at which the site listens."""
        return self.site.listen or self.federation.member(self.site.agent).address

    @property
    def network(self) -> Network:
        """How the site reaches its peers."""
        site, folder = self.site, self.site.folder
        folder = folder if "://" in folder or not folder else str(self.path(folder).resolve())
        return Network(site.carrier, self.tls, self.listen, site.relay, folder)

    def audit(self, out: Path, monitored: bool = False) -> AuditLog:
        """The site's log in a run folder; `monitored` also for Prometheus and syslog, where site.toml names them."""
        site, monitors = self.site, list[Monitor]()
        if monitored and site.metrics:
            monitors.append(Metrics(site.metrics, site.agent))
        if monitored and site.syslog:
            monitors.append(Syslog(site.syslog, site.agent))
        return AuditLog(out / "audit.jsonl", self.keys.signing, monitors)

    def exchange(
        self,
        out: Path,
        audit: AuditLog,
        say: Say,
        listen: str | None = None,
        role: str = "agent",
        release: Release | None = None,
    ) -> SiteExchange:
        """The site's exchange with its peers. It listens at `listen`; None for the site's own address."""
        network = self.network if listen is None else replace(self.network, listen=listen)
        peers = self.federation, self.site.agent, self.keys, network
        return SiteExchange(*peers, out, audit, say, role, self.changes, release)


def load_site(path: Path) -> LoadedSite:
    """Reads site.toml and the files that it names, and checks that this site is the one in the roster."""
    site = read_site(path)
    folder = path.parent
    federation = read_federation(folder / site.federation)
    member = federation.member(site.agent)
    signing = folder / site.signing_key
    changes = SignedChanges(federation, signing.parent, [folder / PROPOSED])
    changes.check_roster()
    tls = Tls(*((folder / name).resolve() for name in (site.tls_key, site.tls_certificate, site.ca)))
    encryption = folder / site.encryption_key
    for secret in (signing, encryption, *([tls.key] if site.carrier == "direct" else [])):
        _check_private(secret)
    for path_, own, public in (
        (signing, keys.public_key(keys.read_signing_key(signing)), member.key),
        (encryption, keys.public_key(keys.read_encryption_key(encryption)), member.encryption),
    ):
        if own != public:
            raise ConsilienceError(
                f"{path_} is not the key that the federation file has for {site.agent}. "
                "Use the key whose public part is there, or agree on a new file."
            )
    if site.carrier == "direct":
        if not site.listen and not member.address:
            raise ConsilienceError(
                f"the federation file has no address for {site.agent}, so that nobody can reach it directly. Set "
                '`listen`, or carrier = "relay" or "folder", in site.toml.'
            )
        problem = keys.read_certificate(tls.certificate).problem(datetime.now(UTC))
        if problem:
            raise ConsilienceError(f"the certificate {tls.certificate} {problem}. Get a new one from your CA.")
    if site.carrier != "folder":
        keys.read_certificate(tls.authority)
    if not (folder / site.shared).exists():
        raise ConsilienceError(
            f"{path}: `shared` names {folder / site.shared}, which does not exist. Put the shared data there, or name "
            "the file that holds them."
        )
    shared, columns = read_features(folder / site.shared)
    labels = [name for name in split_names(site.label) if name in columns]
    if labels:
        raise ConsilienceError(
            f"{path}: `label` names the column {labels[0]!r}, which {folder / site.shared} holds, too: shared data "
            "must have no labels. Agree on shared data without that column, or correct `label`."
        )
    if fingerprint(shared) != federation.shared:
        raise ConsilienceError(
            f"the shared data in {folder / site.shared} are not those of the federation file "
            f"({fingerprint(shared)[:12]} instead of {federation.shared[:12]}, {count(shared)} samples). "
            "All sites need the same samples in the same order; get the file again."
        )
    settings = replace(federation.agreed, run=replace(federation.agreed.run, device=site.device))
    check_approved(federation, signing.parent)
    settings = replace(settings, agents=replace(settings.agents, privacy=site.privacy))
    agreed = shared
    if site.as_table or site.side:
        shared, _ = read_features(folder / site.shared, table=site.as_table or None, side=site.side)
    agreed = shared if site.side else agreed
    kinds = read_columns(shared, site.types, site.drop) if site.drop or site.types else ()
    asked = site.preprocess or ("table" if kinds else "")
    read = preprocessing(
        asked, folder, shared, built_in=bool(site.model) and not is_backbone(site.model), columns=kinds
    )
    return LoadedSite(site, folder, federation, settings, shared, columns, tls, changes, read, agreed)


def read_site(path: Path) -> Site:
    """The content of a site.toml."""
    site = from_table(Site, toml.read(path, advice="`consilience site init` writes one."), str(path))
    if bool(site.python) == bool(site.model):
        raise ConsilienceError(f"{path}: name either a file `python` that makes the agent, or a built-in `model`.")
    for what in ("listen", "metrics", "syslog"):
        if (address := getattr(site, what)) and not (what == "syslog" and address.startswith("/")):
            check_address(address, f"{path}: `{what}`")
    return site


def _check_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConsilienceError(f"the key {path} cannot be read: {error.strerror}.") from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConsilienceError(f"the private key {path} can be read by others. Run: chmod 600 {path}")
