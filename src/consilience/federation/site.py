"""One organisation's part of a federation: its site.toml, its agent, and its run."""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from consilience import toml
from consilience.agents.protocol import Agent, lacks
from consilience.core.streams import stream
from consilience.data.files import read_features, read_labelled
from consilience.errors import ConsilienceError
from consilience.export.facts import facts_of
from consilience.export.folder import export_agent
from consilience.export.inputs import Scale
from consilience.federation.claim import claim
from consilience.federation.peers import keys
from consilience.federation.peers.audit import AuditLog, bytes_sent, incidents, suspicious_peers
from consilience.federation.peers.federation import Federation, check_address, fingerprint
from consilience.federation.peers.inbox import Say
from consilience.federation.peers.link import Tls
from consilience.federation.peers.mesh import Mesh
from consilience.federation.peers.outside import read_federation
from consilience.federation.private import Spending, keep_ledger
from consilience.options import Options, flat, from_table, option, to_table
from consilience.plugins import load_plugin
from consilience.privacy.options import Privacy
from consilience.rows import Rows, count
from consilience.runtime import checkpoint
from consilience.runtime.callbacks import About, Callback, Callbacks
from consilience.runtime.driver import run_rounds
from consilience.runtime.history import Evaluation
from consilience.runtime.private import plan
from consilience.runtime.run import Run
from consilience.runtime.summary import Summary, known_elsewhere, summarised
from consilience.settings.presets import write_config
from consilience.settings.settings import Settings
from consilience.settings.wiring import agent_for, reading
from consilience.tasks.protocol import Array, Task, checked_predictions

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


def run_site(prepared: Prepared, say: Say, callbacks: Sequence[Callback] = (), serve: bool = False) -> Run:
    """Takes part in the federation: waits for peers, runs the rounds, and writes the run folder.

    To `serve` is to answer, after the last round, until every peer has finished, however long that takes.
    """
    out, federation = prepared.out, prepared.federation
    claim(out, federation, prepared.path(prepared.site.signing_key))
    audit = prepared.audit(out)
    agent, evaluation = build_site_agent(prepared)
    settings = prepared.settings
    write_config(settings, out)
    audit.add("start", agent=agent.name, federation=federation.identity().hex(), epoch=federation.epoch)
    ledger = keep_ledger(prepared, agent, audit, say)
    mesh = prepared.mesh(out, audit, say)
    told, about = Callbacks([*callbacks, Spending(agent, audit, say)]), About(agent.name, out, flat(to_table(settings)))
    try:
        done = checkpoint.last_round(out / "checkpoint")
        if not done:
            plan([agent], settings.run.rounds)  # a budget that is spent already is said before anyone is met
        if done < settings.run.rounds:
            mesh.meet()
        run = run_rounds(
            [agent],
            prepared.features(prepared.shared),
            mesh,
            settings.method,
            _summary(prepared, agent),
            evaluation,
            folder=out,
            threads=settings.run.threads,
            tell=partial(told.tell, about),
            baseline=prepared.site.baseline,
        )
        keep_model(prepared, agent, run, say)
        mesh.finish(inf if serve else None)
        run = _with_log(run, out)
    except ConsilienceError as error:
        audit.add("stopped", reason=str(error))
        raise
    except OSError as error:
        with suppress(OSError):
            audit.add("stopped", reason=str(error))
        raise ConsilienceError(
            f"{out} cannot be written to: {error.strerror}. Fix this; the same command goes on from the last round."
        ) from error
    finally:
        mesh.close()
        audit.close()
        if ledger is not None:
            ledger.close()
        told.close()
    return run


def _with_log(run: Run, out: Path) -> Run:
    """The run with what the audit log has of peers and of bytes sent, before and after interruptions."""
    log = out / "audit.jsonl"
    known = replace(run.summary, suspicions=suspicious_peers(log), incidents=incidents(log), sent=bytes_sent(log))
    run = replace(run, summary=known)
    run.save(out)
    return run


def keep_model(prepared: Prepared, agent: Agent, run: Run, say: Say) -> None:
    """Writes the trained model into the run folder, where `predict` finds it: the data may change afterwards."""
    if prepared.read is not None:
        return say(
            "with preprocessing of tables the model is not stored by itself; `predict` takes it up from the run."
        )
    prepare = [scale_of(prepared.shared)] if prepared.site.standardise else []
    facts = facts_of(run, agent.name, tuple(prepared.columns))
    try:
        export_agent(agent, prepared.model, prepared.shared, facts, prepare, onnx=False, overwrite=True)
    except Exception as error:  # whatever a model of the site's own does; the run is finished and good
        say(f"the model is not stored by itself, and `predict` will have to fit it again: {error}")


def serve_site(prepared: Prepared, say: Say) -> None:
    """Answers for a finished run until every peer has finished, too: one that comes late finds what it needs."""
    audit = prepared.audit(prepared.out)
    try:
        audit.add("start", agent=prepared.site.agent, serves=True)
        mesh = prepared.mesh(prepared.out, audit, say)
        try:
            mesh.finish(inf)
        finally:
            mesh.close()
    finally:
        audit.close()


def check_agent_of(prepared: Prepared) -> None:
    """Builds the site's agent and lets it predict the shared data once; an error says what is wrong."""
    agent, _ = build_site_agent(prepared)
    f = agent.predict(prepared.features(prepared.shared))
    checked_predictions(agent.name, f, count(prepared.shared), len(prepared.federation.classes), agent.task)


def build_site_agent(prepared: Prepared) -> tuple[Agent, Evaluation]:
    """The site's agent, and the data it is measured on."""
    site, classes = prepared.site, prepared.federation.classes
    target = None
    if site.target:
        target = _labelled(prepared, site.target)
    if site.python:
        own = {site.agent: _labelled(prepared, site.test)} if site.test else {}
        return _own_agent(prepared), Evaluation(target=target, own=own)
    if not site.data:
        raise ConsilienceError(f"the model {site.model!r} needs `data`, the site's private training data.")
    x, y = _labelled(prepared, site.data)
    if site.test:
        test = _labelled(prepared, site.test)
    else:
        order = stream(prepared.settings.run.seed, "own test", site.agent).permutation(len(y))
        held_out, rest = np.split(order, [len(y) // 5])
        test, (x, y) = (x[held_out], y[held_out]), (x[rest], y[rest])
    shape = prepared.features(prepared.shared).shape[1:]
    if x.shape[1:] != shape:
        raise ConsilienceError(
            f"a sample of {site.data} has the shape {x.shape[1:]}, one of the shared data {shape}. "
            "Both need the same features in the same order."
        )
    agent = agent_for(prepared.settings, site.agent, site.model, x, y, len(classes), prepared.federation.task)
    return agent, Evaluation(target=target, own={site.agent: test})


def _own_agent(prepared: Prepared) -> Agent:
    path = prepared.path(prepared.site.python).resolve()
    module = load_plugin(path)
    make: Callable[..., Any] | None = getattr(module, "make_agent", None)
    if make is None:
        raise ConsilienceError(f"{path} has no function make_agent(name, classes, seed).")
    name, classes = prepared.site.agent, prepared.federation.classes
    agent: Agent = make(name, classes, prepared.settings.run.seed)
    missing = lacks(agent, Agent)
    if missing:
        raise ConsilienceError(
            f"make_agent in {path} returned {type(agent).__name__}, which is no agent: it lacks {', '.join(missing)}."
        )
    agent.name = name
    if lacks(agent.task, Task):
        raise ConsilienceError(
            f"the agent of {path} has the task {agent.task!r}. Use consilience.TASKS.find('classification')."
        )
    if agent.task.name != prepared.federation.task or agent.outputs != len(classes):
        raise ConsilienceError(
            f"the agent of {path} does {agent.task.name}; for {prepared.federation.task} it must predict the "
            f"{len(classes)} {agent.task.outputs_are} {', '.join(classes)}."
        )
    return agent


def _labelled(prepared: Prepared, name: str) -> tuple[Array, Array]:
    x, y = read_labelled(
        prepared.path(name),
        prepared.site.label,
        prepared.federation.classes,
        prepared.columns,
        task=prepared.federation.task,
        table=hasattr(prepared.shared, "iloc"),
        side=prepared.site.side,
    )
    return prepared.features(x), y


def preprocessing(asked: str, folder: Path, shared: Rows, built_in: bool) -> Callable[[Rows], Any] | None:
    """How a site makes numbers of rows: as its file says, or for built-in models as tables need it.

    A file has a function transform(rows), or a scikit-learn transformer `preprocessing`, which is fitted to the shared
    data: so it is the same whatever a site's own data are.
    """
    if asked in ("", "table"):
        table = hasattr(shared, "iloc")
        if asked and not table:
            raise ConsilienceError("preprocess is 'table', but the shared data are no table. Leave it out.")
        return reading(shared) if table and (asked or built_in) else None
    path = (folder / asked).resolve()
    module = load_plugin(path)
    if hasattr(module, "transform"):
        made: Callable[[Rows], Any] = module.transform
        return made
    steps = getattr(module, "preprocessing", None)
    if not hasattr(steps, "fit"):
        raise ConsilienceError(f"{path} has neither a function transform(rows) nor a transformer `preprocessing`.")
    fitted = clone(steps).fit(shared)

    def read(rows: Rows) -> Any:
        found = fitted.transform(rows)
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float32)

    return read


def scaled(x: Array, shared: Array) -> Array:
    """`x` with the mean and deviation of the shared data taken out."""
    return scale_of(shared)(x)


def scale_of(shared: Array) -> Scale:
    """By mean and deviation of the shared data."""
    deviation = shared.std(axis=0)
    return Scale(shared.mean(axis=0), np.where(deviation > 0, deviation, np.ones_like(deviation)))


def _summary(prepared: Prepared, agent: Agent) -> Summary:
    federation, settings = prepared.federation, prepared.settings
    return Summary(
        method=settings.method.label,
        title=settings.method.title,
        task=agent.task.name,
        rounds=settings.run.rounds,
        warmup=settings.method.warmup,
        shared_samples=federation.shared_samples,
        agents=known_elsewhere(summarised([agent]), federation.names, len(federation.classes)),
        classes=[] if agent.task.noisy else list(federation.classes),
        dataset=federation.name,
        seed=settings.run.seed,
        data=federation.shared,
        federation=federation.identity().hex(),
    )


def _check_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConsilienceError(f"the key {path} cannot be read: {error.strerror}.") from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConsilienceError(f"the private key {path} can be read by others. Run: chmod 600 {path}")
