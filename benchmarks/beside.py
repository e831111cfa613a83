"""FedAvg of small networks beside other libraries, each in an environment of its own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.peers.task import write
from benchmarks.timing import TURNS, ms, over, ranged, table

SCRIPTS = Path(__file__).with_name("peers")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "consilience-bench"
NEEDS = {"flower": "flwr[simulation]==1.41.0", "fluke_fl": "fluke-fl==0.8.1"}
"""Scripts that need an environment of their own."""
SIZES = {10: 8, 100: 3}
"""Rounds by number of agents."""
OURS = "consilience, training and averaging"
PEERS = {
    OURS: ("ours", "training"),
    "consilience, with scores and checkpoints": ("ours",),
    "torch, a plain loop": ("plain_torch",),
    "torch.func.vmap": ("vmap_torch",),
    "fluke 0.8.1": ("fluke_fl",),
    "Flower 1.41.0, simulation": ("flower",),
}
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}


def run() -> str:
    """The section on other libraries."""
    reasons = {name: reason for name in NEEDS if (reason := _install(name))}
    parts = [_table(agents, rounds, reasons) for agents, rounds in SIZES.items()]
    notes = [f"{NEEDS[name]} cannot be measured here: {reason}\n" for name, reason in reasons.items()]
    return (
        "## FedAvg beside other libraries\n\nNetworks 64-64-10, 80 samples an agent, five epochs in batches of at most "
        "64, Adam, the mean of the weights; the same data, first weights and rounds for all, one thread (Flower: a "
        "process for each core). CPU time of a round after the first, of all processes, median of a run; `in all` is "
        "the wall time of the whole program. Nobody evaluates, except in the second line.\n\n"
        + "\n".join([*parts, *notes])
    )


def _install(name: str) -> str:
    """Makes the environment of a script, once; returns why that is not possible, if it is not."""
    environment, need = CACHE / name, f"{NEEDS[name]} torch=={version('torch').split('+')[0]}"
    if (environment / "ready").is_file() and (environment / "ready").read_text() == need:
        return ""
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q", *need.split()]
    for command in ([sys.executable, "-m", "venv", "--clear", environment], pip):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    (environment / "ready").write_text(need)
    return ""


def _table(agents: int, rounds: int, reasons: dict[str, str]) -> str:
    cpu: dict[str, list[float]] = {}
    wholes: dict[str, list[float]] = {}
    accuracy: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.npz"
        write(task, agents, rounds)
        for _ in range(TURNS):
            for title, (script, *words) in PEERS.items():
                if script in reasons:
                    continue
                began = time.perf_counter()
                result = _result(script, task, words)
                if result is None:
                    reasons[script] = "its script ended with an error."
                    continue
                wholes.setdefault(title, []).append(time.perf_counter() - began)
                cpu.setdefault(title, []).append(median(result["rounds"][1:]))
                accuracy[title] = result["accuracy"]
    rows = [
        [
            title,
            ms(own),
            ranged(over(own, cpu[OURS])),
            ranged(wholes[title], unit="s"),
            f"{accuracy[title]:.3f}",
        ]
        for title, own in cpu.items()
        if len(own) == TURNS
    ]
    return table([f"{agents} agents, {rounds} rounds", "CPU a round", "times ours", "in all", "accuracy"], rows)


def _result(script: str, task: Path, words: list[str]) -> dict | None:
    """The last line that a script printed; None if it failed."""
    python = CACHE / script / "bin" / "python" if script in NEEDS else sys.executable
    command = [python, SCRIPTS / f"{script}.py", task, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | QUIET)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])
