"""Crowds: a round of a thousand agents on images and of ten thousand on digits, and how its parts grow."""

import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.crowd import crowd
from benchmarks.timing import exponent, table, verdict
from consilience.agents import networks
from consilience.agents.input_cache import cached_rows
from consilience.agents.local_agents import LocalAgents
from consilience.agents.torch_agent import TorchAgent
from consilience.experiments.run import run_experiment
from consilience.methods.consensus import Consensus
from consilience.methods.listening.sparse import Sparse
from consilience.methods.protocol import Start
from consilience.report.page import write_page
from consilience.runtime.callbacks import Callback, Finished, RunInfo, Started
from consilience.runtime.exchange import InMemory
from consilience.runtime.history import Evaluation
from consilience.settings.presets import read_settings
from consilience.settings.settings import load_plugins

PLUGIN = str(Path(__file__).with_name("crowd.py"))
COMMON: dict[str, Any] = {"plugins": [PLUGIN], "partition": "iid", "references": [], "warmup": 1, "rounds": 4}
LINEAR = {"dataset": "crowd-images", "agents.count": 1000, "models": ["linear"], "shared_per_agent": 3, "epochs": 3}
LINEAR |= {"evaluate_sample": 3000}
MLP = {"dataset": "crowd-digits", "agents.count": 10_000, "models": ["mlp"], "shared_per_agent": 1, "shared_limit": 300}
MLP |= {"target_fraction": 0.001}
FEW, SOME = {"listening": "sparse", "peers": 8}, {"listening": "sparse", "peers": 16}
CROWDS = {
    "1000 x linear, 3x32x32, X* 3000, everyone hears everyone": (LINEAR, 15, 4.0),
    "1000 x linear, 3x32x32, X* 3000, 8 + 4 peers": (LINEAR | FEW, 15, 4.0),
    "10,000 x MLP, 64 numbers, X* 300, 16 + 4 peers": (MLP | SOME, 60, None),
}
SIZES = (625, 1250, 2500, 5000, 10_000)
HEARD = Consensus(warmup=0, listening=Sparse(peers=16))


def run() -> str:
    """The section on crowds."""
    rows = []
    for title, (changes, seconds, memory) in CROWDS.items():
        found = measured(changes)
        goal = f"{seconds} s: {verdict(found.seconds <= seconds)}"
        goal += f", {memory:.0f} GiB: {verdict(found.memory <= memory)}" if memory else ""
        page = f"{found.page / 1e6:.1f} MB"
        rows.append(
            [title, f"{found.seconds:.1f} s", f"{found.memory:.1f} GiB", f"{found.checkpoint:.2f} GB", page, goal]
        )
    head = ["agents", "a round", "memory", "a checkpoint", "the report page", "goal reached"]
    return (
        "## Crowds\n\nA round with training, trust, scoring and checkpoint, over two workers with one thread each: the "
        "median of the rounds of collaboration before the last. Images and digits are noise of the shapes of "
        "CIFAR-10 and of the digits (`benchmarks/crowd.py`); agents have 33 and 87 of them to train on. The thousand "
        "are scored on 3000 target samples (`evaluate_sample`). Memory is the largest sum over all processes (their "
        "proportional set sizes).\n\n" + table(head, rows) + "\n" + growth()
    )


@dataclass(frozen=True)
class Crowd:
    """What a run of a crowd took."""

    seconds: float
    """A round."""
    memory: float
    """GiB."""
    checkpoint: float
    """GB."""
    page: int
    """Bytes."""


class Clock(Callback):
    """When rounds ended."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def start(self, run: RunInfo, news: Started) -> None:
        """The first round begins."""
        self.at.append(time.perf_counter())

    def round(self, run: RunInfo, news: Finished) -> None:
        """A round has ended."""
        self.at.append(time.perf_counter())


def measured(changes: dict[str, Any], workers: int = 2) -> Crowd:
    """Runs a crowd."""
    load_plugins(COMMON)
    settings, clock = read_settings("digits-mlp", COMMON | changes), Clock()
    with tempfile.TemporaryDirectory() as place, Memory() as memory:
        folder = Path(place) / "run"
        finished = run_experiment(settings, folder, workers, [clock])
        newest = max((folder / "checkpoint").iterdir(), key=lambda path: path.stat().st_mtime)
        page = write_page(finished, folder / "report.html").stat().st_size
        size = newest.stat().st_size / 1e9
    took = np.diff(clock.at)
    return Crowd(median(took[1:-1]), memory.most / 2**30, size, page)


class Memory:
    """Looks every now and then how much memory this process and all that it started use together."""

    def __enter__(self) -> "Memory":
        self.most, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.most = max(self.most, sum(_memory(process) for process in _family(os.getpid())))


def _family(process: int) -> list[int]:
    children = [int(child) for task in Path(f"/proc/{process}/task").glob("*/children") for child in _words(task)]
    return [process, *(one for child in children for one in _family(child))]


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _memory(process: int) -> int:
    """Bytes, pages that several processes share counted in parts."""
    words = _words(Path(f"/proc/{process}/smaps_rollup"))
    return 1024 * int(words[words.index("Pss:") + 1]) if "Pss:" in words else 0


def growth() -> str:
    """How the parts of a round grow with the number of agents, each of which hears 20 peers."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = [parts(agents) for agents in SIZES]
    rows = []
    for part in found[0]:
        seconds = [one[part] for one in found]
        power = exponent(SIZES, seconds)
        rows.append([part, *(f"{one:.2f} s" for one in seconds), f"{power:.2f}", verdict(power <= 1.1)])
    head = ["CPU seconds", *(f"{size:,}" for size in SIZES), "exponent", "at most 1.1"]
    return (
        "### Growth with sparse exchange\n\nParts of a round of MLPs (64 numbers, 64 hidden units, 80 private samples, "
        "X* of 300) by the number of agents, each hearing 16 + 4 peers; one core, one turn. The exponent p of cost ~ "
        "agents^p is fitted to the upper half.\n\n" + table(head, rows)
    )


def parts(agents: int) -> dict[str, float]:
    """CPU seconds of each part."""
    data = crowd(80 * agents + 750, (64,))
    shared, target, own = data.x[:300], (data.x[300:750], data.y[300:750]), (data.x[750:], data.y[750:])
    names = tuple(str(number) for number in range(agents))
    team = LocalAgents(
        [
            TorchAgent(networks.mlp((64,), 10), own[0][80 * k : 80 * k + 80], own[1][80 * k : 80 * k + 80], name)
            for k, name in enumerate(names)
        ],
        names,
    )
    exchange, evaluation = InMemory(names), Evaluation(data.y[:300], target)
    with cached_rows([shared, target[0]]):
        said: dict[str, Any] = {}
        psi: dict[str, Any] = {}

        def hear() -> None:
            psi.update(HEARD._hear_some(team, exchange, 1, said, Start(1).memory, 0).psi)

        steps: dict[str, Callable[[], object]] = {
            "prediction": lambda: said.update(team.published(shared)),
            "trust and pseudo-labels": hear,
            "training": lambda: team.train(shared, psi, 0.5),
            "scoring": lambda: evaluation.scores_of(team, said, 1, True),
        }
        found = {}
        for part, step in steps.items():
            began = time.process_time()
            step()
            found[part] = time.process_time() - began
    return found | {"together": sum(found.values())}
