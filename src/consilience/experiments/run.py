"""One experiment: a method and its references on the same split, in one run folder."""

from dataclasses import replace
from pathlib import Path

from consilience.experiments.folders import write_config
from consilience.experiments.jobs import Job, OnNews, run_jobs
from consilience.experiments.settings import Settings
from consilience.runtime.run import Run


def run_experiment(settings: Settings, folder: Path, workers: int = 0, on_news: OnNews = lambda job, news: None) -> Run:
    """Runs the method into `folder` and each reference into a folder below it. What is finished is not run again."""
    write_config(settings, folder)
    jobs = [Job(settings, settings.method, folder)]
    jobs += [Job(settings, name, folder / name) for name in settings.references]
    run, *others = run_jobs(jobs, workers, on_news)
    return replace(run, references=dict(zip(settings.references, others, strict=True)))
