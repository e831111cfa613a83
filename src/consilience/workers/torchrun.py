"""Runs on processes that torchrun started, on one machine or several. The first one leads, the others follow."""

import json
import os
import platform
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.files import DATA_VARIABLE
from consilience.runtime.callbacks import Callback
from consilience.runtime.summary import versions
from consilience.settings.settings import given_plugins, load_plugins, settings_from
from consilience.workers.group import WorkerGroup, end_with_parent, join, leave
from consilience.workers.job import Job
from consilience.workers.work import work


def lead(jobs: Sequence[Job], callback: Callback) -> None:
    """Runs the jobs one after another, each with its agents spread over all processes."""
    number, world = _world()
    for job in jobs:
        order = {
            "settings": job.settings.to_toml(),
            "plugins": given_plugins(job.settings),
            "folder": str(job.folder),
            "data": os.environ.get(DATA_VARIABLE, ""),
            "versions": versions(),
        }
        world.from_first({"job": np.frombuffer(json.dumps(order).encode(), dtype=np.uint8)})
        work(job.settings, job.folder, partial(callback.handle, job.about), worker=number, workers=world.size)


def follow() -> None:
    """Does this process's part of every job, until the first process has no more. Only the first one writes files.

    The folder of data is the first one's, unless this machine has its own in the environment.
    """
    for request in (signal.SIGINT, signal.SIGTERM):
        signal.signal(request, signal.SIG_DFL)
    number, world = _world()
    while "job" in (message := world.from_first({})):
        order = json.loads(message["job"].tobytes())
        _same_versions(order["versions"], number)
        if order["data"]:
            os.environ.setdefault(DATA_VARIABLE, order["data"])
        load_plugins({"plugins": order["plugins"]})
        tables = toml.parse(order["settings"], "the first worker's job")
        work(settings_from(tables, ""), Path(order["folder"]), worker=number, workers=world.size)
    leave()


def _same_versions(theirs: dict[str, str], number: int) -> None:
    differing = [f"{name} {own}, not {theirs.get(name)}" for name, own in versions().items() if theirs.get(name) != own]
    if differing:
        raise ConsilienceError(
            f"worker {number} on {platform.node()} has {', '.join(differing)} as the first worker has. "
            "Install the same versions on every machine."
        )


def dismiss() -> None:
    """Ends the followers."""
    _, world = _world()
    world.from_first({})
    leave()


def _world() -> tuple[int, WorkerGroup]:
    import torch.distributed as dist

    number, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if not dist.is_initialized():
        end_with_parent()
        join(number, size)
    return number, WorkerGroup([()] * size, number)
