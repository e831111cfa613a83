"""Overhead of a round: everything that is neither training nor prediction."""

import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from unittest.mock import patch

from benchmarks.timing import table, verdict
from consilience.agents import batched
from consilience.agents.torch_agent import TorchAgent
from consilience.runtime.callbacks import Event, Finished
from consilience.settings.presets import read_settings
from consilience.workers.work import work

CHANGES = {"references": [], "epochs": 1}


def run() -> str:
    """The section on the overhead."""
    here, training = _in_one_process()
    rows = [["one process", f"{here * 1e3:.1f} ms", f"under 20 ms: {verdict(here < 0.02)}"]]
    there = _over_workers(2) - training / 2
    rows.append(["two workers", f"{there * 1e3:.1f} ms", f"under 60 ms: {verdict(there < 0.06)}"])
    return (
        "## Overhead of a round\n\n"
        "Exchange, trust, pseudo-labels, metrics, history and checkpoint of a round of ten small networks "
        "(`digits-mlp`): the time of a round without training and prediction, median over rounds. Over workers: the "
        "time of a round of `consilience run --workers 2` without half of the training and prediction of one process."
        "\n\n" + table(["where", "per round", "goal reached"], rows)
    )


def _in_one_process() -> tuple[float, float]:
    """Median seconds per round of collaboration: overhead, and training with prediction."""
    settings = read_settings("digits-mlp", CHANGES | {"rounds": 60})
    spent = [0.0]
    ends: list[tuple[float, float]] = []

    def timed(function):
        def measured(*arguments, **options):
            began = time.perf_counter()
            result = function(*arguments, **options)
            spent[0] += time.perf_counter() - began
            return result

        return measured

    def note(event: Event) -> None:
        if isinstance(event, Finished):
            ends.append((time.perf_counter(), spent[0]))

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(batched, "train_all", timed(batched.train_all)),
        patch.object(TorchAgent, "predict", timed(TorchAgent.predict)),
    ):
        work(settings, Path(folder), note)
    rounds = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(ends[10:])]
    return median(whole - training for whole, training in rounds), median(training for _, training in rounds)


def _over_workers(workers: int) -> float:
    """Seconds per round, from a long and a short run, so that the start does not count."""
    seconds = {rounds: _run(rounds, workers) for rounds in (10, 110)}
    return (seconds[110] - seconds[10]) / 100


def _run(rounds: int, workers: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        flags = [flag for key, value in (CHANGES | {"rounds": rounds}).items() for flag in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "consilience", "run", "digits-mlp", "--workers", str(workers), *flags]
        subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
        return float(json.loads((out / "summary.json").read_text())["seconds"])
