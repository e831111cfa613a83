"""One experiment, a method beside its references, in one run folder; and its agents, restored from there."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.data.datasets import RawScale, RawSteps
from consilience.data.loading import is_path
from consilience.data.preprocess import TablePreprocessing
from consilience.data.scenario import Scenario
from consilience.runtime import checkpoint
from consilience.runtime.callbacks import Callback
from consilience.runtime.run import Run, is_finished, load_run
from consilience.runtime.run_state import check_private_data, check_reference_predictions
from consilience.settings.presets import settings_of, write_config
from consilience.settings.settings import Settings
from consilience.settings.wiring import build_agents, build_scenario, data_fingerprint, shared_rows
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

if TYPE_CHECKING:
    from consilience.export.card import Advise


def run_experiment(settings: Settings, folder: Path, workers: int = 0, callbacks: Sequence[Callback] = ()) -> Run:
    """Runs the method into `folder` and each reference into a folder below it. What is finished is not run again."""
    write_config(settings, folder)
    names = settings.run.references
    jobs = [Job(settings, folder), *(Job(_reference(settings, name), folder / name, name) for name in names)]
    run, *others = run_jobs(jobs, workers, callbacks)
    return replace(run, references=dict(zip(names, others, strict=True)))


def _reference(settings: Settings, name: str) -> Settings:
    """The settings of a reference. Only of the agents alone is kept what models are calibrated and combined by."""
    references = settings.run.references if name == "alone" else ()
    return replace(settings.with_method(name), run=replace(settings.run, references=references))


_IMAGES = (
    "`consilience predict FOLDER` reads image files as the training images were: in colour, from -1 to 1, of this size."
)
_BYTES = "Pixels are bytes, as image files have them."


@dataclass(frozen=True)
class Restored:
    """A finished run with its trained agents and its data."""

    run: Run
    agents: list[Agent]
    scenario: Scenario


def restore(folder: Path, names: Collection[str] | None = None) -> Restored:
    """The run in `folder` with its agents, or those called `names`, each checked against its reference predictions.

    Networks load their weights; estimators are fitted again to the data and the pseudo-labels of the last round.
    Data that differ from those of the run are refused.
    """
    run = load_run(folder)
    for name in names or ():
        if name not in run.names:
            raise ConsilienceError(f"{folder} has no agent {name!r}. It has: {', '.join(run.names)}.")
    if not (folder / "config.toml").is_file():
        raise ConsilienceError(
            f"{folder} holds a run of agents that were made in Python, so they cannot be restored from the folder. "
            "Call result.export(...) where collaborate(...) returned the result."
        )
    settings = settings_of(folder)
    scenario = build_scenario(settings)
    prints = data_fingerprint(settings, scenario)
    if prints != run.summary.data:
        raise ConsilienceError(
            f"the data are not those of the run in {folder} (fingerprint {prints[:12]} instead of "
            f"{run.summary.data[:12]}). Bring back the data that it was made with, or run it again."
        )
    done, arrays, _ = checkpoint.read(folder / "checkpoint")
    if not done:
        raise ConsilienceError(f"{folder} has no checkpoint, so its models are gone. Run it again.")
    agents, shared = build_agents(settings, scenario, names), shared_rows(settings, scenario)
    for agent in agents:
        check_private_data(agent, arrays.get("run"), folder)
        agent.restore(checkpoint.with_prefix(arrays, f"agent/{agent.name}/"), shared)
        check_reference_predictions(agent, scenario.shared, arrays, str(folder))
    return Restored(run, agents, scenario)


def export_run(folder: Path, agent: str, to: Path, at: str = "", advise: "Advise | None" = None) -> Path:
    """Writes the model of one agent of a run into the folder `to`, with the steps that prepare raw samples for it.

    Args:
        folder: The run's.
        agent: Whose model.
        to: A new folder.
        at: What it predicts for by default; where the run knows it, the target domain.
        advise: Says which model to use where.
    """
    from consilience.export.card import facts_of, no_advice
    from consilience.export.folder import export_agent
    from consilience.export.inputs import AS_ARRAY, Scale

    loaded = restore(folder, [agent])
    settings, raw, shared = settings_of(folder), loaded.scenario.raw, loaded.scenario.shared
    facts, calibration = facts_of(loaded.run, agent, advise=advise or no_advice), loaded.run.calibrations.get(agent)
    export = partial(
        export_agent,
        loaded.agents[0],
        to,
        calibration=calibration,
        alone=restore(folder / "alone", [agent]).agents[0] if is_finished(folder / "alone") else None,
        at=at or ("target" if calibration is not None else "together"),
    )
    if raw is not None:
        facts = replace(facts, columns=raw.columns, about=raw.about)
    if isinstance(raw, RawScale):
        step = Scale(raw.mean, raw.deviation)
        return export(raw.raw(shared), replace(facts, largest=raw.largest), [step])
    if isinstance(raw, RawSteps):
        steps = [*raw.steps] if isinstance(raw.steps[0], TablePreprocessing) else [*raw.steps, AS_ARRAY]
        return export(raw.examples, facts, steps)
    if is_path(settings.data.dataset):
        columns = tuple(column.name for column in loaded.scenario.columns)
        about = _IMAGES if Path(settings.data.dataset).is_dir() and isinstance(shared, np.ndarray) else ""
        return export(shared, replace(facts, columns=columns, about=about))
    if getattr(shared, "dtype", None) == np.uint8:
        return export(shared, replace(facts, about=_BYTES, largest=255))
    about = f"Samples are those of the dataset {loaded.run.summary.dataset!r} as consilience loads it."
    return export(shared, replace(facts, about=about))
