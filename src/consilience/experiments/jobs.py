"""Independent runs side by side: one single-threaded process each, as many at once as there are workers."""

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection, get_context
from pathlib import Path
from typing import TYPE_CHECKING

from consilience.errors import ConsilienceError
from consilience.experiments.settings import Settings
from consilience.runtime.run import Run, is_finished, load_run

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


OnJobRound = Callable[[Job, int, dict[str, float]], None]
"""Told the job, the round's number, and the means over agents of every measure."""


def run_jobs(jobs: Sequence[Job], workers: int = 0, on_round: OnJobRound | None = None) -> list[Run]:
    """Runs the jobs that are not finished yet; returns all of them, in order. Numbers do not depend on `workers`.

    `workers` 0 means as many as there are cores.
    """
    told = on_round or (lambda job, number, means: None)
    todo = [job for job in jobs if not is_finished(job.folder)]
    at_once = min(workers or _cores(), len(todo))
    if at_once > 1:
        _side_by_side(todo, at_once, told)
    else:
        for job in todo:
            _run_here(job, partial(told, job))
    return [load_run(job.folder) for job in jobs]


def _run_here(job: Job, on_round: Callable[[int, dict[str, float]], None]) -> None:
    from consilience.experiments.method import run_method

    run_method(job.settings, job.method, job.folder, on_round)


def _side_by_side(todo: Sequence[Job], at_once: int, told: OnJobRound) -> None:
    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    waiting = list(todo)
    running: dict[Connection, tuple[Job, ForkServerProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(job, dict(os.environ), there), daemon=True)
                process.start()
                there.close()
                running[here] = job, process
            for pipe in connection.wait(list(running)):
                _hear(pipe, running, told)  # type: ignore[arg-type]
    finally:
        for _, process in running.values():
            process.kill()
            process.join()


def _hear(pipe: "Connection", running: "dict[Connection, tuple[Job, ForkServerProcess]]", told: OnJobRound) -> None:
    """Takes one message of a worker: a round, its end, or what went wrong."""
    job, process = running[pipe]
    try:
        kind, content = pipe.recv()
    except EOFError:
        process.join()
        raise ConsilienceError(
            f"the worker that ran {job.method} (seed {job.settings.seed}) died with exit code {process.exitcode}. "
            "Finished rounds are saved; go on with --resume."
        ) from None
    if kind == "round":
        told(job, *content)
    elif kind == "done":
        process.join()
        del running[pipe]
    elif kind == "refused":
        raise ConsilienceError(content)
    else:
        raise RuntimeError(f"the worker that ran {job.method} failed:\n{content}")


def _work(job: Job, environment: dict[str, str], pipe: "Connection") -> None:
    """A worker process: runs one job and tells of its rounds. Its server may have started in another environment."""
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        _run_here(job, lambda number, means: pipe.send(("round", (number, means))))
        pipe.send(("done", None))
    except ConsilienceError as error:
        pipe.send(("refused", str(error)))
    except Exception:
        pipe.send(("failed", traceback.format_exc()))


def _end_with_parent(parent: int) -> None:
    """Ends this process when the program that started it is gone, even if that was killed."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
