"""Runs over several machines, which are network namespaces here: what crosses the network is real."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from consilience.experiments.run import run_experiment
from consilience.settings.presets import read_settings
from consilience.workers.heartbeat import SILENCE
from tests.conftest import root, slowness
from tests.test_same_everywhere import rounds_saved, same_folder

pytestmark = [pytest.mark.faults, pytest.mark.minutes]

SETTINGS = {"rounds": 200, "warmup": 1, "agents.count": 4, "epochs": 1, "references": []}


def start(machines: list[str], folder: Path, *words: str) -> list[subprocess.Popen]:
    """`consilience run` on every machine, two processes each, as docs/how-to/cluster.md has it."""
    processes = []
    for number, machine in enumerate(machines):
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(len(machines))]
        torchrun += ["--node-rank", str(number), "--nproc-per-node", "2"]
        torchrun += ["--master-addr", "10.199.0.1", "--master-port", "29500"]
        torchrun += ["-m", "consilience", "run", "digits-mlp", "--out", str(folder), *words]
        torchrun += [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
        command = ["ip", "netns", "exec", machine, *torchrun]
        with (folder.parent / f"{folder.name}-{number}.log").open("w") as log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder.parent))
    return processes


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    """The same on one machine, in one process."""
    folder = tmp_path_factory.mktemp("machines") / "alone"
    run_experiment(read_settings("digits-mlp", SETTINGS), folder, workers=1)
    return folder


def test_two_machines_give_the_same_bits_as_one(networks, alone, tmp_path):
    _, *machines = networks(2)
    for process in start(machines, tmp_path / "run"):
        assert process.wait(120 * slowness()) == 0
    same_folder(alone, tmp_path / "run")


@pytest.mark.parametrize("lost", [0, 1], ids=["first", "other"])
def test_a_machine_that_vanishes_ends_the_run_which_resumes(networks, alone, tmp_path, lost):
    """A cable is pulled: no connection is closed, nothing arrives any more."""
    _, *machines = networks(2)
    processes = start(machines, tmp_path / "run")
    while rounds_saved(tmp_path / "run") < 3:
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)
    root(f"ip -n {machines[lost]} link set uplink down")
    for process in processes:
        assert process.wait(SILENCE + 30 * slowness()) != 0
    seen = (tmp_path / f"run-{1 - lost}.log").read_text()
    assert f"nothing was heard of {'worker 0' if lost == 0 else 'workers 2, 3'} for 60 seconds" in seen
    assert rounds_saved(tmp_path / "run") < SETTINGS["rounds"]
    shutil.copytree(tmp_path / "run", tmp_path / "again")
    run_experiment(read_settings("digits-mlp", SETTINGS), tmp_path / "again", workers=2)
    same_folder(alone, tmp_path / "again")
