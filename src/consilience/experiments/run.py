"""One experiment: a method and its references on the same split, in one run folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from consilience.runtime.callbacks import Callback
from consilience.runtime.run import Run
from consilience.settings.presets import write_config
from consilience.settings.settings import Settings
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs


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
