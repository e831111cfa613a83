"""The trained model of a site, from its run folder."""

from pathlib import Path

from consilience.agents.calibrated import predict_at
from consilience.agents.calibration import Calibration
from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.data.files import read_features
from consilience.export.card import Advise, facts_of, no_advice
from consilience.export.folder import copy_model, export_agent, load_model
from consilience.export.inputs import read_samples
from consilience.export.manifest import FILE
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.site import MODEL, LoadedSite, load_site, read_site
from consilience.federation.site_agent import build_site_agent
from consilience.runtime import checkpoint
from consilience.runtime.run import is_finished, load_run
from consilience.runtime.run_state import check_reference_predictions
from consilience.tasks.protocol import Array


def predict_site(site: Path, samples: Path, at: str = "") -> tuple[Array, tuple[str, ...], Calibration | None]:
    """Predictions for the samples in a file, the names of their columns, and the calibration of the site's models.

    `at` says which model: home (the default, where the run knows it), target, alone or together.

    The model is in the run folder. If it is not, because the run is not finished or its model cannot be stored, it is
    restored from the checkpoint, and refused if it does not predict what the trained model predicted.
    """
    out = site.parent / read_site(site).out
    if (out / MODEL / FILE).is_file():
        model = load_model(out / MODEL)
        x = read_samples(samples, model.manifest.inputs)
        at = at or _by_default(model.calibration)
        return model.predict(x, at), read_federation(out / "federation.toml").classes, model.calibration
    loaded = load_site(site)
    agent = restored_agent(loaded)
    table, needed = hasattr(loaded.shared, "iloc"), getattr(loaded.read, "needed", loaded.columns)
    x, _ = read_features(samples, needed, table=table, side=loaded.site.side)
    alone, calibration = restored_alone(loaded, agent), _calibration(loaded)
    predict = None if alone is None else alone.predict
    at = at or _by_default(calibration)
    f = predict_at(f"agent {agent.name!r}", at, loaded.features(x), agent.predict, predict, calibration)
    return f, loaded.federation.classes, calibration


def restored_agent(loaded: LoadedSite) -> Agent:
    """The site's agent after its last round, restored from its data and its checkpoint."""
    done, arrays, _ = checkpoint.read(loaded.out / "checkpoint")
    if not done:
        raise ConsilienceError(f"{loaded.out} holds no trained model yet. Run `consilience site run` first.")
    agent, _ = build_site_agent(loaded)
    shared = loaded.features(loaded.shared)
    agent.restore(checkpoint.with_prefix(arrays, f"agent/{agent.name}/"), loaded.learned_rows())
    check_reference_predictions(agent, shared, arrays, str(loaded.out))
    return agent


def restored_alone(loaded: LoadedSite, agent: Agent) -> Agent | None:
    """The copy of the site's agent that trained alone, from the checkpoint; None if there was none."""
    _, arrays, _ = checkpoint.read(loaded.out / "checkpoint")
    state = checkpoint.with_prefix(arrays, f"baseline/agent/{agent.name}/")
    if not state:
        return None
    alone, _ = build_site_agent(loaded)
    alone.restore(state, loaded.learned_rows())
    return alone


def _calibration(loaded: LoadedSite) -> Calibration | None:
    """The calibration of a finished run's models."""
    return load_run(loaded.out).calibrations.get(loaded.site.agent) if is_finished(loaded.out) else None


def _by_default(calibration: Calibration | None) -> str:
    """What a site predicts for by default."""
    return "home" if calibration is not None else "together"


def export_site(source: Path, agent: str, to: Path, at: str = "", advise: Advise = no_advice) -> Path:
    """Writes the model of a site into a folder.

    Args:
        source: The site's run folder or its site.toml.
        agent: The site's name, to be checked; empty for any.
        to: The folder to write.
        at: What it predicts for by default; where the run knows it, home.
        advise: Says which model to use where.
    """
    out = source.parent / read_site(source).out if source.is_file() else source
    if (out / MODEL / FILE).is_file():
        model = load_model(out / MODEL)
        _check_name(agent, model.manifest.agent, out)
        return copy_model(out / MODEL, to, at or _by_default(model.calibration))
    if not source.is_file():
        raise ConsilienceError(f"{source} holds no stored model. Give the site.toml instead, to restore it.")
    loaded = load_site(source)
    _check_name(agent, loaded.site.agent, out)
    restored = restored_agent(loaded)
    facts = facts_of(load_run(loaded.out), restored.name, tuple(loaded.columns), advise=advise)
    alone, calibration = restored_alone(loaded, restored), _calibration(loaded)
    at = at or _by_default(calibration)
    steps = loaded.prepare_steps()
    return export_agent(restored, to, loaded.shared, facts, steps, calibration=calibration, alone=alone, at=at)


def _check_name(asked: str, name: str, out: Path) -> None:
    if asked not in ("", name):
        raise ConsilienceError(f"{out} has the model of {name!r}, not of {asked!r}.")
