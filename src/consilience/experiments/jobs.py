"""Runs on worker processes: independent ones side by side, the agents of one spread over several."""

import os
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import connection, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from consilience.errors import ConsilienceError
from consilience.experiments.news import News, Started
from consilience.experiments.settings import Settings
from consilience.experiments.spread import team_sizes
from consilience.runtime.run import Run, is_finished, load_run
from consilience.runtime.workers import WorkerLost, end_with_parent, join

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

_PRELOAD = ["consilience.experiments.preload"]
"""Imported once by the server from which all workers are forked."""


@dataclass(frozen=True)
class Job:
    """One method with one seed, to be run into `folder`."""

    settings: Settings
    method: str
    folder: Path
    workers: int = 1
    """Processes that its agents are spread over."""


OnNews = Callable[[Job, News], None]
"""Told how each job gets on."""


@dataclass
class _Worker:
    """A process that trains some agents of a job."""

    job: Job
    number: int
    place: int
    """Among all that run at the same time."""
    process: "ForkServerProcess"
    agents: tuple[str, ...] = ()
    """Known once it has started."""

    def __str__(self) -> str:
        what = f"{self.job.method} (seed {self.job.settings.seed})"
        if self.job.workers == 1:
            return f"the worker that ran {what}"
        return f"worker {self.number} of {what}, which trained agents {', '.join(self.agents) or 'not known yet'},"


def run_jobs(jobs: Sequence[Job], workers: int = 0, on_news: OnNews = lambda job, news: None) -> list[Run]:
    """Runs the jobs that are not finished yet; returns all of them, in order. Numbers do not depend on `workers`.

    `workers` 0 means as many as pay off, at most one for each core, or for each GPU if there are runs that use them.
    Under torchrun its processes are the workers.
    """
    todo = [job for job in jobs if not is_finished(job.folder)]
    at_once = workers or _most_workers(todo)
    sizes = team_sizes([(job.settings, job.method) for job in todo], at_once, asked=workers > 0)
    if under_torchrun():
        from consilience.experiments.cluster import lead

        lead(todo, on_news)
    elif min(at_once, sum(sizes)) > 1:
        _side_by_side([replace(job, workers=size) for job, size in zip(todo, sizes, strict=True)], at_once, on_news)
    else:
        for job in todo:
            _run_here(job, partial(on_news, job))
    return [load_run(job.folder) for job in jobs]


def under_torchrun() -> bool:
    """Whether torchrun, or something like it, started this process as one of several."""
    return os.environ.keys() >= {"RANK", "WORLD_SIZE", "MASTER_ADDR"} and os.environ["WORLD_SIZE"] != "1"


def _run_here(job: Job, tell: Callable[[News], None]) -> None:
    from consilience.experiments.method import run_method

    run_method(job.settings, job.method, job.folder, tell)


def _side_by_side(todo: Sequence[Job], at_once: int, on_news: OnNews) -> None:
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    waiting = list(todo)
    running: dict[Connection, _Worker] = {}
    with TemporaryDirectory(prefix="consilience-") as folder:
        try:
            while waiting or running:
                while waiting and len(running) + waiting[0].workers <= at_once:
                    job, meeting = waiting.pop(0), f"file://{folder}/{len(waiting)}"
                    for number in range(job.workers):
                        here, there = context.Pipe(duplex=False)
                        place = min(set(range(at_once)) - {worker.place for worker in running.values()})
                        environment = {**os.environ, "LOCAL_RANK": str(place)}
                        given = (job, number, meeting, environment, there)
                        process = context.Process(target=_work, args=given, daemon=True)
                        process.start()
                        there.close()
                        running[here] = _Worker(job, number, place, process)
                for pipe in connection.wait(list(running)):
                    _hear(pipe, running, on_news)  # type: ignore[arg-type]
        finally:
            for worker in running.values():
                worker.process.kill()
                worker.process.join()


def _hear(pipe: "Connection", running: "dict[Connection, _Worker]", on_news: OnNews) -> None:
    """Takes one message of a worker: its agents, news, its end, or what went wrong."""
    worker = running[pipe]
    try:
        kind, content = pipe.recv()
    except EOFError:
        worker.process.join()
        raise ConsilienceError(
            f"{worker} died with exit code {worker.process.exitcode}. Finished rounds are saved; go on with --resume."
        ) from None
    if kind == "agents":
        worker.agents = content
    elif kind == "news":
        on_news(worker.job, content)
    elif kind in ("done", "lost"):
        worker.process.join()
        del running[pipe]
        if kind == "lost" and not any(other.job.folder == worker.job.folder for other in running.values()):
            raise ConsilienceError(content)
    elif kind == "refused":
        raise ConsilienceError(content)
    else:
        raise RuntimeError(f"{worker} failed:\n{content}")


def _work(job: Job, number: int, meeting: str, environment: dict[str, str], pipe: "Connection") -> None:
    """A worker process: its part of one job, and word of its rounds. Its server may have another environment.

    A worker that has lost another says so and ends: the other's end has the reason.
    """
    from consilience.experiments.method import run_method

    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()

    def tell(kind: str, content: object = None) -> None:
        try:
            pipe.send((kind, content))
        except BrokenPipeError:
            os._exit(1)

    def report(news: News) -> None:
        if isinstance(news, Started):
            tell("agents", news.holders[number])
        if number == 0 or not isinstance(news, Started):
            tell("news", news)

    try:
        if job.workers > 1:
            join(number, job.workers, meeting)
        run_method(job.settings, job.method, job.folder, report, worker=number, workers=job.workers)
        tell("done")
    except WorkerLost as error:
        tell("lost", str(error))
    except ConsilienceError as error:
        tell("refused", str(error))
    except Exception:
        tell("failed", traceback.format_exc())


def _most_workers(jobs: Sequence[Job]) -> int:
    if any(job.settings.device == "cuda" for job in jobs):
        import torch

        return max(1, torch.cuda.device_count())
    return _cores()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
