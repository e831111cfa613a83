"""One organisation's part of a federation: its site.toml, its agent, and its run."""

import importlib.util
import os
import stat
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from consilience.agents.protocol import Agent, Array, describe
from consilience.core.streams import stream
from consilience.data.files import read_features, read_labelled
from consilience.errors import ConsilienceError
from consilience.experiments.build import build_agent
from consilience.experiments.folders import write_config
from consilience.experiments.settings import Settings, changed
from consilience.runtime import checkpoint
from consilience.runtime.checkpoint import write_atomically
from consilience.runtime.history import Evaluation
from consilience.runtime.peers import keys
from consilience.runtime.peers.audit import AuditLog
from consilience.runtime.peers.federation import Federation, fingerprint, read_federation
from consilience.runtime.peers.link import Tls
from consilience.runtime.peers.mesh import Mesh, Say
from consilience.runtime.run import OnRound, Run, carry_out


@dataclass(frozen=True)
class Site:
    """The content of site.toml. Paths are relative to that file."""

    agent: str
    """The name in the roster."""
    federation: str = "federation.toml"
    shared: str = "shared.npz"
    """The shared data: npz (x), npy, csv or parquet."""
    out: str = "run"
    """The run folder."""
    signing_key: str = "keys/signing.key"
    tls_key: str = "keys/tls.key"
    tls_certificate: str = "keys/tls.crt"
    ca: str = "keys/ca.crt"
    listen: str = ""
    """host:port to listen at, where that is not the address in the roster."""
    python: str = ""
    """A Python file with a function make_agent(name, classes, seed) that returns the agent."""
    model: str = ""
    """Or a built-in model, with `data`."""
    data: str = ""
    """Private training data: npz (x, y), csv or parquet."""
    label: str = "label"
    """The column of `data` that holds the class."""
    test: str = ""
    """Private test data in the same form; without it a fifth of `data`."""
    target: str = ""
    """Labelled data of the target domain, if the site has some, to measure on."""
    standardise: bool = False
    """Scale every feature by the mean and deviation of the shared data, which are the same everywhere."""
    device: str = "cpu"
    """Where a built-in torch model trains: cpu or cuda."""


@dataclass(frozen=True)
class Prepared:
    """Everything a site needs, read and checked."""

    site: Site
    folder: Path
    federation: Federation
    settings: Settings
    shared: Array
    columns: list[str]
    """Names of the shared data's columns, if they have any."""
    tls: Tls

    def features(self, x: Array) -> Array:
        """Samples as the site's model takes them."""
        return scaled(x, self.shared) if self.site.standardise else x

    def path(self, name: str) -> Path:
        """A path in site.toml."""
        return self.folder / name

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.path(self.site.out)

    def mesh(self, out: Path, audit: AuditLog, say: Say, listen: str | None = None) -> Mesh:
        """The site's place among its peers."""
        place = self.site.listen or self.federation.member(self.site.agent).address
        signing = keys.read_signing_key(self.path(self.site.signing_key))
        return Mesh(
            self.federation, self.site.agent, signing, self.tls, out, audit, say, place if listen is None else listen
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
            f"({fingerprint(shared)[:12]} instead of {federation.shared[:12]}, shape {shared.shape}). "
            "All sites need the same samples in the same order; get the file again."
        )
    settings = changed(Settings(device=site.device), federation.settings, f"{folder / site.federation}, settings")
    return Prepared(site, folder, federation, settings, shared, columns, tls)


def read_site(path: Path) -> Site:
    """The content of a site.toml."""
    try:
        values = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConsilienceError(f"{path} cannot be read ({error.strerror}). `consilience keys` writes one.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConsilienceError(f"{path} is not valid TOML: {error}.") from error
    known = {f.name: bool if f.name == "standardise" else str for f in fields(Site)}
    for key, value in values.items():
        if key not in known:
            raise ConsilienceError(f"{path}: unknown entry {key!r}. Known: {', '.join(known)}.")
        if not isinstance(value, known[key]):
            raise ConsilienceError(f"{path}: {key} is {value!r}, which is not of the right type.")
    if "agent" not in values:
        raise ConsilienceError(f"{path}: agent is missing, the site's name in the federation file.")
    site = Site(**values)
    if bool(site.python) == bool(site.model):
        raise ConsilienceError(f"{path}: name either a file `python` that makes the agent, or a built-in `model`.")
    return site


def run_site(prepared: Prepared, say: Say, on_round: OnRound | None = None) -> Run:
    """Takes part in the federation: waits for peers, runs the rounds, and writes the run folder."""
    out, federation = prepared.out, prepared.federation
    _claim(prepared)
    agent, evaluation = build_site_agent(prepared)
    settings = prepared.settings
    write_config(settings, out)
    audit = AuditLog(out / "audit.jsonl")
    audit.add("start", agent=agent.name, federation=federation.identity().hex(), shared=federation.shared)
    mesh = prepared.mesh(out, audit, say)
    try:
        if checkpoint.last_round(out / "checkpoint") < settings.rounds:
            mesh.meet()
        run = carry_out(
            [agent],
            prepared.features(prepared.shared),
            mesh,
            settings.algorithm(settings.method),
            evaluation=evaluation,
            facts=_facts(prepared, agent),
            folder=out,
            threads=settings.threads,
            on_round=on_round,
        )
        mesh.finish()
    except ConsilienceError as error:
        audit.add("stopped", reason=str(error))
        raise
    except OSError as error:
        with suppress(OSError):
            audit.add("stopped", reason=str(error))
        raise ConsilienceError(
            f"{out} cannot be written to: {error.strerror}. Mend this; the same command goes on from the last round."
        ) from error
    finally:
        mesh.close()
        audit.close()
    return run


def predict(prepared: Prepared, path: Path) -> Array:
    """Class probabilities (samples, classes) of the site's improved model for the samples in a file."""
    done, arrays, _ = checkpoint.read(prepared.out / "checkpoint")
    if not done:
        raise ConsilienceError(f"{prepared.out} holds no trained model yet. Run `consilience agent` first.")
    agent, _ = build_site_agent(prepared)
    prefix = f"agent/{agent.name}/"
    state = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
    agent.restore(state, prepared.features(prepared.shared))
    x, _ = read_features(path, prepared.columns)
    return agent.predict(prepared.features(x))


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
        order = stream(prepared.settings.seed, "own test", site.agent).permutation(len(y))
        held, kept = np.split(order, [len(y) // 5])
        test, (x, y) = (x[held], y[held]), (x[kept], y[kept])
    if x.shape[1:] != prepared.shared.shape[1:]:
        raise ConsilienceError(
            f"a sample of {site.data} has the shape {x.shape[1:]}, one of the shared data {prepared.shared.shape[1:]}. "
            "Both need the same features in the same order."
        )
    agent = build_agent(prepared.settings, site.agent, site.model, x, y, len(classes))
    return agent, Evaluation(target=target, own={site.agent: test})


def _own_agent(prepared: Prepared) -> Agent:
    path = prepared.path(prepared.site.python).resolve()
    spec = importlib.util.spec_from_file_location("site_agent", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConsilienceError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    make: Callable[..., Any] | None = getattr(module, "make_agent", None)
    if make is None:
        raise ConsilienceError(f"{path} has no function make_agent(name, classes, seed).")
    name, classes = prepared.site.agent, prepared.federation.classes
    agent = make(name, classes, prepared.settings.seed)
    if not isinstance(agent, Agent):
        raise ConsilienceError(f"make_agent in {path} returned {type(agent).__name__}, which is no agent.")
    agent.name = name
    if agent.task != "classification" or agent.outputs != len(classes):
        raise ConsilienceError(f"the agent of {path} must predict the {len(classes)} classes {', '.join(classes)}.")
    return agent


def _labelled(prepared: Prepared, name: str) -> tuple[Array, Array]:
    x, y = read_labelled(prepared.path(name), prepared.site.label, prepared.federation.classes, prepared.columns)
    return prepared.features(x), y


def scaled(x: Array, shared: Array) -> Array:
    """`x` with the mean and deviation of the shared data taken out."""
    mean, deviation = shared.mean(axis=0), shared.std(axis=0)
    scaled_x: Array = ((x - mean) / np.where(deviation > 0, deviation, 1)).astype(np.float32)
    return scaled_x


def _facts(prepared: Prepared, agent: Agent) -> dict[str, Any]:
    federation, settings = prepared.federation, prepared.settings
    known = describe([agent])[0]
    strangers = {"model": "unknown", "samples": None, "low_quality": False, "parameters": None}
    agents = [
        known if name == agent.name else {"name": name, **strangers, "class_counts": [0] * len(federation.classes)}
        for name in federation.names
    ]
    return {
        "method": settings.method,
        "dataset": federation.name,
        "task": agent.task,
        "rounds": settings.rounds,
        "warmup": settings.warmup,
        "lam": settings.lam,
        "seed": settings.seed,
        "data": federation.shared,
        "classes": list(federation.classes),
        "shared_samples": federation.shared_samples,
        "agents": agents,
        "federation": federation.identity().hex(),
    }


def _claim(prepared: Prepared) -> None:
    """The run folder holds the federation file it was begun with; with another one it is not gone on with."""
    kept = prepared.out / "federation.toml"
    if kept.is_file():
        differing = read_federation(kept).differences(prepared.federation)
        if differing:
            raise ConsilienceError(
                f"{prepared.out} was begun with another federation file; it differs in {'; '.join(differing)}. "
                "Go on with the old file, or set `out` in site.toml to a new folder."
            )
        return
    if prepared.out.is_dir() and any(not path.name.endswith(".part") for path in prepared.out.iterdir()):
        raise ConsilienceError(f"{prepared.out} holds something else. Set `out` in site.toml to a new folder.")
    prepared.out.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, prepared.federation.to_toml().encode())


def _check_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConsilienceError(f"the key {path} cannot be read: {error.strerror}.") from error
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConsilienceError(f"the private key {path} can be read by others. Run: chmod 600 {path}")
