"""Jobs on worker processes of this machine, at most a given number at once."""

import os
import signal
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_all_start_methods, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from consilience.base import toml
from consilience.base.errors import ConsilienceError, sentence_of
from consilience.base.registry import user_file_location
from consilience.runtime.callbacks import Callback, Event, Started
from consilience.settings.settings import given_plugins, load_plugins, settings_from
from consilience.workers.group import WorkerLost, end_with, join
from consilience.workers.job import Job

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_FORKS = "forkserver" in get_all_start_methods()
"""Whether a server that has imported everything forks workers; otherwise, as on Windows, each imports it itself."""
_METHOD = "forkserver" if _FORKS else "spawn"
_PRELOAD = ["consilience.workers.preload"]
"""Imported once by the server from which all workers are forked."""


_Order = tuple[str, list[str], Path]
"""Settings as TOML, plugins and the folder of a job."""


@dataclass
class _Worker:
    job: Job
    number: int
    slot: int
    """Its index among all that run at the same time."""
    process: "BaseProcess"
    agents: tuple[str, ...] = ()
    """Known once it has started."""

    def __str__(self) -> str:
        what = f"{self.job.method} (seed {self.job.settings.run.seed})"
        if self.job.workers == 1:
            return f"the worker that ran {what}"
        return f"worker {self.number} of {what}, which trained agents {', '.join(self.agents) or 'not known yet'},"


def run_side_by_side(todo: Sequence[Job], at_once: int, callback: Callback) -> None:
    """Runs all jobs, each with as many workers as it says, at most `at_once` workers at the same time.

    A worker that is done goes on with a job of the same data, which it has, if there is one.
    """
    context = get_context(_METHOD)
    if _FORKS:
        _start_server()
    waiting = list(todo)
    running: dict[Connection, _Worker] = {}
    lifeline, _kept = context.Pipe(duplex=False)  # its other end is nowhere but here, and closes when this process ends
    with TemporaryDirectory(prefix="consilience-") as folder:
        meetings = f"file:///{Path(folder).as_posix().lstrip('/')}"
        try:
            while waiting or running:
                while waiting and len(running) + waiting[0].workers <= at_once:
                    job = waiting.pop(0)
                    for number in range(job.workers):
                        slot = min(set(range(at_once)) - {worker.slot for worker in running.values()})
                        pipe, worker = _start(job, number, slot, f"{meetings}/{len(waiting)}", lifeline)
                        running[pipe] = worker
                for ready in connection.wait(list(running)):
                    _hear(ready, running, waiting, callback)  # type: ignore[arg-type]
        finally:
            for worker in running.values():
                worker.process.kill()
                worker.process.join()


def _start_server() -> None:
    """Starts the server that forks workers. It ignores Ctrl-C: the program, which does not, ends them all."""
    from multiprocessing import forkserver, resource_tracker

    forkserver.set_forkserver_preload(_PRELOAD)
    resource_tracker.ensure_running()  # it lets Ctrl-C through again once it has started
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _start(job: Job, number: int, slot: int, meeting: str, lifeline: "Connection") -> "tuple[Connection, _Worker]":
    """Starts worker `number` of a job, and returns the pipe of its messages."""
    context = get_context(_METHOD)
    here, there = context.Pipe()
    environment = {**os.environ, "LOCAL_RANK": str(slot)}
    given = (_order(job), job.workers, number, meeting, environment, there, lifeline)
    process: BaseProcess = context.Process(target=_work, args=given, daemon=True)  # type: ignore[attr-defined]
    process.start()
    there.close()
    return here, _Worker(job, number, slot, process)


def _order(job: Job) -> _Order:
    """The settings travel as TOML, so that a worker can load plugins before it needs them: those given to this process,
    and no other that a folder's config.toml names.
    """
    return job.settings.to_toml(), given_plugins(job.settings), job.folder


def _next_job(last: Job, waiting: list[Job]) -> Job | None:
    """Takes from `waiting` a job for the worker that did the `last` one."""
    for job in waiting if last.workers == 1 else ():
        if job.workers == 1 and job.settings.data_key == last.settings.data_key:
            waiting.remove(job)
            return job
    return None


def _hear(pipe: "Connection", running: "dict[Connection, _Worker]", waiting: list[Job], callback: Callback) -> None:
    """Receives one message of a worker: its agents, an event, its end, or an error."""
    worker = running[pipe]
    try:
        kind, content = pipe.recv()
    except EOFError:
        worker.process.join()
        raise ConsilienceError(
            f"{worker} died with exit code {worker.process.exitcode}. Finished rounds are saved; resume the run."
        ) from None
    if kind == "agents":
        worker.agents = content
    elif kind == "event":
        callback.handle(worker.job.about, content)
    elif kind == "done" and (job := _next_job(worker.job, waiting)) is not None:
        worker.job, worker.agents = job, ()
        with suppress(OSError):  # of a worker that has died, no more is heard
            pipe.send(_order(job))
    elif kind in ("done", "lost"):
        with suppress(OSError):
            pipe.send(None)
        worker.process.join()
        del running[pipe]
        if kind == "lost" and not any(other.job.folder == worker.job.folder for other in running.values()):
            raise ConsilienceError(content)
    elif kind == "refused":
        raise ConsilienceError(content)
    else:
        raise RuntimeError(f"{worker} failed:\n{content}")


def _work(
    order: _Order | None,
    workers: int,
    number: int,
    meeting: str,
    environment: dict[str, str],
    pipe: "Connection",
    lifeline: "Connection",
) -> None:
    """Does a worker's part of a job, and then of more, and sends its events. Its server may have another environment.

    A worker that has lost another says so and ends: the other's error has the reason.
    """
    end_with(lifeline)
    from consilience.settings.wiring import build_scenario
    from consilience.workers.work import LastData, work

    data = LastData() if workers == 1 else build_scenario
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def send(kind: str, content: object = None) -> None:
        try:
            pipe.send((kind, content))
        except BrokenPipeError:
            os._exit(1)

    def emit(event: Event) -> None:
        if isinstance(event, Started):
            send("agents", event.agents_by_worker[number])
        if number == 0 or not isinstance(event, Started):
            send("event", event)

    try:
        if workers > 1:
            join(number, workers, meeting)
        while order is not None:
            settings, plugins, folder = order
            load_plugins({"plugins": plugins})
            tables = toml.parse(settings, "the job")
            work(settings_from(tables, ""), folder, emit, worker=number, workers=workers, data=data)
            send("done")
            order = pipe.recv()
    except WorkerLost as error:
        send("lost", str(error))
    except ConsilienceError as error:
        send("refused", str(error))
    except OSError as error:
        send("refused", sentence_of(error))
    except Exception as error:
        blamed = user_file_location(error)
        send("refused" if blamed else "failed", blamed or traceback.format_exc())
