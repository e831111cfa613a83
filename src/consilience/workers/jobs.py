"""Runs jobs with whatever there is: here, on worker processes of this machine, or on those that torchrun started."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from consilience.runtime.callbacks import Callback, Callbacks
from consilience.runtime.progress_file import ProgressFile
from consilience.runtime.run import Run, is_finished, load_run
from consilience.settings.presets import write_config
from consilience.workers.job import Job
from consilience.workers.scheduling import team_sizes


def run_jobs(jobs: Sequence[Job], workers: int = 0, callbacks: Sequence[Callback] = ()) -> list[Run]:
    """Runs the jobs that are not finished yet; returns all of them, in order. Numbers do not depend on `workers`.

    `workers` 0 means as many as pay off, at most one for each core, or for each GPU if there are runs that use them.
    Under torchrun its processes are the workers.
    """
    for job in jobs:
        if (job.folder / "config.toml").is_file():
            write_config(job.settings, job.folder)  # refuses what was made with other settings
    todo = [job for job in jobs if not is_finished(job.folder)]
    at_once = workers or _most_workers(todo)
    sizes = [1] * len(todo)
    if at_once > 1:
        sizes = team_sizes([job.settings for job in todo], at_once, asked=workers > 0)
    made: dict[Path, Run | None] = {}
    with Callbacks([ProgressFile(), *callbacks]) as all_of_them:
        if under_torchrun():
            from consilience.workers.torchrun import lead

            lead(todo, all_of_them)
        elif min(at_once, sum(sizes)) > 1:
            from consilience.workers.pool import run_side_by_side

            sized = [replace(job, workers=size) for job, size in zip(todo, sizes, strict=True)]
            run_side_by_side(sized, at_once, all_of_them)
        else:
            from consilience.workers.work import LastData, work

            data = LastData()
            for job in todo:
                made[job.folder] = work(job.settings, job.folder, partial(all_of_them.handle, job.about), data=data)
    return [made.get(job.folder) or load_run(job.folder) for job in jobs]


def under_torchrun() -> bool:
    """Whether torchrun, or something like it, started this process as one of several."""
    return os.environ.keys() >= {"RANK", "WORLD_SIZE", "MASTER_ADDR"} and os.environ["WORLD_SIZE"] != "1"


def _most_workers(jobs: Sequence[Job]) -> int:
    if any(job.settings.run.device == "cuda" for job in jobs):
        import torch

        return max(1, torch.cuda.device_count())
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
