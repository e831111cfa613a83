"""The model of a site: the one that was trained, from the run folder."""

from pathlib import Path

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.data.files import read_features
from consilience.export.facts import facts_of
from consilience.export.folder import copy_model, export_agent, load_model
from consilience.export.inputs import read_samples
from consilience.export.manifest import FILE
from consilience.federation.peers.untrusted_input import read_federation
from consilience.federation.site import MODEL, LoadedSite, load_site, read_site
from consilience.federation.site_agent import build_site_agent
from consilience.runtime import checkpoint
from consilience.runtime.reference_predictions import check_reference_predictions
from consilience.runtime.run import load_run
from consilience.tasks.protocol import Array


def predict_site(site: Path, samples: Path) -> tuple[Array, tuple[str, ...]]:
    """Predictions of the site's trained model for the samples in a file, and the names of their columns.

    The model is that in the run folder. A run that has stored none, because it is not finished or its model cannot be
    stored, is taken up from its checkpoint, and refused if that is not the model that was trained.
    """
    out = site.parent / read_site(site).out
    if (out / MODEL / FILE).is_file():
        model = load_model(out / MODEL)
        x = read_samples(samples, model.manifest.inputs)
        return model.predict(x), read_federation(out / "federation.toml").classes
    loaded = load_site(site)
    agent = restored_agent(loaded)
    table, needed = hasattr(loaded.shared, "iloc"), getattr(loaded.read, "needed", loaded.columns)
    x, _ = read_features(samples, needed, table=table, side=loaded.site.side)
    return agent.predict(loaded.features(x)), loaded.federation.classes


def restored_agent(loaded: LoadedSite) -> Agent:
    """The site's agent as it was after its last round, made anew from its data and its checkpoint."""
    done, arrays, _ = checkpoint.read(loaded.out / "checkpoint")
    if not done:
        raise ConsilienceError(f"{loaded.out} holds no trained model yet. Run `consilience agent` first.")
    agent, _ = build_site_agent(loaded)
    shared = loaded.features(loaded.shared)
    agent.restore(checkpoint.with_prefix(arrays, f"agent/{agent.name}/"), shared)
    check_reference_predictions(agent, shared, arrays, str(loaded.out))
    return agent


def export_site(place: Path, agent: str, to: Path) -> Path:
    """Writes the model of a site into the folder `to`. `place` is its run folder or its site.toml."""
    out = place.parent / read_site(place).out if place.is_file() else place
    if (out / MODEL / FILE).is_file():
        name = load_model(out / MODEL).manifest.agent
        _check_name(agent, name, out)
        return copy_model(out / MODEL, to)
    if not place.is_file():
        raise ConsilienceError(f"{place} holds no stored model. Give the site.toml instead, to make it anew.")
    loaded = load_site(place)
    _check_name(agent, loaded.site.agent, out)
    made, run = restored_agent(loaded), load_run(loaded.out)
    facts = facts_of(run, made.name, tuple(loaded.columns))
    return export_agent(made, to, loaded.shared, facts, loaded.prepare_steps())


def _check_name(asked: str, name: str, out: Path) -> None:
    if asked not in ("", name):
        raise ConsilienceError(f"{out} has the model of {name!r}, not of {asked!r}.")
