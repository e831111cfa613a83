"""Where the time of a round goes, and that of a comparison."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.timing import TURNS, digits, ms, ranged, table
from consilience.agents import batched_prediction
from consilience.agents.local_agents import LocalAgents
from consilience.agents.torch_agent import TorchAgent
from consilience.experiments.compare import compare
from consilience.methods.listening.everyone import Everyone
from consilience.methods.listening.sparse import Sparse
from consilience.methods.server import ServerMethod
from consilience.runtime.callbacks import Callback, Event, Finished, RunInfo, Started
from consilience.runtime.history import Evaluation, History
from consilience.runtime.run import Run
from consilience.runtime.run_state import RunState
from consilience.settings.presets import read_settings
from consilience.settings.settings import load_plugins
from consilience.workers import work as working
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

PARTS: dict[str, list[tuple[Any, str]]] = {
    "training": [(LocalAgents, name) for name in ("train", "train_alone", "train_on_shared", "train_on_own")],
    "prediction": [(TorchAgent, "predict"), (batched_prediction, "_predicted")],
    "scoring": [(Evaluation, "scores_of"), (Evaluation, "draws_of")],
    "trust, labels": [(Everyone, "listen"), (Sparse, "listen")],
    "writing": [(RunState, "save"), (Run, "save")],
    "history": [(History, "add")],
    "server": [(ServerMethod, "server_update"), (ServerMethod, "after_average")],
    "weights": [(TorchAgent, "weights"), (TorchAgent, "set_weights"), (TorchAgent, "reset_optimizer")],
    "data, agents": [(working, "build_scenario"), (working, "build_agents"), (working, "summarise")],
}
"""Functions of each part; one within another counts for itself alone."""
CROWD = {"plugins": [str(Path(__file__).with_name("crowd.py"))], "partition": "iid", "warmup": 1}
MANY = CROWD | {"dataset": "crowd-digits", "models": ["mlp"], "shared_per_agent": 1, "shared_limit": 300}
MANY |= {"target_fraction": 0.001, "references": []}
SPARSE = {"listening": "sparse", "peers": 16}
METHODS = ("consensus", "alone", "fedavg", "fedprox", "scaffold", "feddyn", "feddf", "fedmd", "ds-fl", "fedct")
METHODS += ("cronus", "fd", "kt-pfl")
Spent = dict[str, float]


def run() -> str:
    """The sections on rounds."""
    return "\n".join([_methods(), _parts()])


def _methods() -> str:
    """CPU time of a round of every method."""
    rounds: dict[str, list[float]] = {name: [] for name in METHODS}
    for turn in range(TURNS + 1):
        for name in METHODS:
            settings = read_settings("digits-mlp", {"references": [], "rounds": 25}).with_method(name)
            marks: list[float] = []
            _work(settings, lambda event: marks.append(time.process_time()) if isinstance(event, Finished) else None)  # noqa: B023
            if turn:
                rounds[name].append(median(np.diff(marks[6:-1])))
    first = rounds["consensus"]
    rows = [[name, ms(own), digits(median(own) / median(first))] for name, own in rounds.items()]
    return (
        "## A round of every method\n\nCPU time of a round of `digits-mlp` (ten networks 64-64-10), with scores and "
        "checkpoint, in one process. FedMD, DS-FL and KT-pFL learn private and shared samples one after the other, "
        "with twice as many steps.\n\n" + table(["method", "a round", "times consensus"], rows)
    )


def _parts() -> str:
    cases: dict[str, Callable[[], list[Spent]]] = {
        "`run digits-mlp`": lambda: _rounds({"rounds": 40}),
        "the same, FedAvg": lambda: _rounds({"rounds": 40}, "fedavg"),
        "1000 agents": lambda: _rounds(MANY | {"agents.count": 1000, "rounds": 5}),
        "1000 agents, FedAvg": lambda: _rounds(MANY | {"agents.count": 1000, "rounds": 5}, "fedavg"),
        "10,000 agents, 16 + 4 peers": lambda: _rounds(MANY | SPARSE | {"agents.count": 10_000, "rounds": 5}),
    }
    names = [name for name in PARTS if name != "data, agents"]
    rows = []
    for title, measured in cases.items():
        spent = measured()
        whole = [sum(own.values()) for own in spent]
        shares = [f"{median(own.get(name, 0) / sum(own.values()) for own in spent):.0%}" for name in (*names, "rest")]
        rows.append([title, ms(whole), *shares])
    workers = [_two_workers() for _ in range(TURNS)]
    rows.append(["`run digits-mlp --workers 2`, wall time", ms(workers), *["-"] * (len(names) + 1)])
    return (
        "## Where a round goes\n\nCPU time of a round of collaboration in one process; the range is over its rounds. "
        "Agents of the crowds are networks 64-64-10 with about 87 samples of noise around ten means, and 300 shared "
        "samples.\n\n" + table(["method", "a round", *names, "rest"], rows) + "\n" + _comparison()
    )


def _comparison() -> str:
    names, spent = list(PARTS), []
    for _ in range(TURNS):
        with tempfile.TemporaryDirectory() as folder, _measured() as now:
            settings = read_settings("digits-mlp", {})
            compare(settings, ["consensus", "naive", "fedavg", "alone"], range(5), Path(folder), workers=1)
            spent.append(now())
    shares = [f"{median(own.get(name, 0) / sum(own.values()) for own in spent):.0%}" for name in (*names, "rest")]
    whole = ranged([sum(own.values()) for own in spent], unit="s")
    row = ["`compare digits-mlp`, 4 methods, 5 seeds", whole, *shares]
    return table(["command", "CPU time", *names, "rest"], [row])


def _rounds(changes: dict[str, Any], method: str = "") -> list[Spent]:
    """CPU seconds of each part in every round of collaboration but the last, which is also resampled."""
    load_plugins(changes)
    settings = read_settings("digits-mlp", {"references": []} | changes)
    settings = settings.with_method(method) if method else settings
    marks: list[Spent] = []
    with _measured() as now:
        _work(settings, lambda event: marks.append(now()) if isinstance(event, Finished) else None)
    first = max(settings.method.warmup, 1)
    pairs = zip(marks[first - 1 : -2], marks[first:-1], strict=True)
    return [{name: after[name] - before.get(name, 0) for name in after} for before, after in pairs]


def _work(settings: Any, emit: Callable[[Event], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        working.work(settings, Path(folder) / "run", emit)


@contextmanager
def _measured() -> Iterator[Callable[[], Spent]]:
    """Within it, CPU seconds of every part and of the rest since the beginning."""
    spent: Spent = dict.fromkeys([*PARTS, "rest"], 0.0)
    current, since = ["rest"], [time.process_time()]

    def switch(part: str) -> str:
        now, before = time.process_time(), current[0]
        spent[before] += now - since[0]
        current[0], since[0] = part, now
        return before

    def timed(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def measured(*given: Any, **options: Any) -> Any:
            before = switch(part)
            try:
                return function(*given, **options)
            finally:
                switch(before)

        return measured

    def now() -> Spent:
        switch(current[0])
        return dict(spent)

    with ExitStack() as patches:
        for part, functions in PARTS.items():
            for owner, name in functions:
                patches.enter_context(patch.object(owner, name, timed(getattr(owner, name), part)))
        yield now


class _Clock(Callback):
    """When rounds ended."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def start(self, run: RunInfo, news: Started) -> None:
        self.at.append(time.perf_counter())

    def round(self, run: RunInfo, news: Finished) -> None:
        self.at.append(time.perf_counter())


def _two_workers() -> float:
    """Seconds of a round."""
    clock, settings = _Clock(), read_settings("digits-mlp", {"references": [], "rounds": 40})
    with tempfile.TemporaryDirectory() as folder:
        run_jobs([Job(settings, Path(folder) / "run")], 2, [clock])
    return float(median(np.diff(clock.at)[6:-1]))
