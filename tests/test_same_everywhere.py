"""Same seed, same numbers: on a rerun, in another order, after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import load_run
from consilience.experiments.run import run_experiment
from consilience.experiments.settings import read_settings

SMALL = {"rounds": 6, "warmup": 2, "agents": 5, "low_quality": [2], "references": ["alone"], "method": "static"}
FLAGS = [flag for key, value in SMALL.items() for flag in ("--set", f"{key}={value}")]


def equal(one: Path, two: Path) -> None:
    """Metrics and trust of two run folders are the same to the bit."""
    a, b = load_run(one), load_run(two)
    pd.testing.assert_frame_equal(a.metrics, b.metrics, check_exact=True)
    np.testing.assert_array_equal(a.trust, b.trust)
    assert a.summary["data"] == b.summary["data"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_experiment(read_settings("digits", SMALL), folder)
    return folder


def test_a_rerun_gives_the_same_bits_and_another_seed_does_not(whole, tmp_path):
    run_experiment(read_settings("digits", SMALL), tmp_path / "again")
    equal(whole, tmp_path / "again")
    run_experiment(read_settings("digits", SMALL | {"seed": 1}), tmp_path / "other")
    assert not np.array_equal(load_run(whole).trust, load_run(tmp_path / "other").trust)


def test_agents_in_another_order_give_the_same_bits(whole, tmp_path, monkeypatch):
    """Each agent draws from its own streams, so that who trains first does not matter."""
    from consilience.experiments import method as module

    def backwards(settings, scenario):
        return list(reversed(original(settings, scenario)))

    original = module.build_agents
    monkeypatch.setattr(module, "build_agents", backwards)
    run_experiment(read_settings("digits", SMALL), tmp_path / "run", workers=1)
    a, b = load_run(whole), load_run(tmp_path / "run")
    order = ["round", "agent"]
    pd.testing.assert_frame_equal(
        a.metrics.sort_values(order, ignore_index=True),
        b.metrics.sort_values(order, ignore_index=True),
        check_exact=False,
        rtol=1e-6,
    )
    exact = [c for c in a.metrics if "accuracy" in str(c) or "loss" in str(c)]
    pd.testing.assert_frame_equal(
        a.metrics.sort_values(order, ignore_index=True)[exact], b.metrics.sort_values(order, ignore_index=True)[exact]
    )
    np.testing.assert_array_equal(a.trust, b.trust[:, ::-1])


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "consilience", "run", "digits", *FLAGS, "--out", str(folder), "--resume"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rounds_saved(folder: Path) -> int:
    return max((int(path.name[6:11]) for path in folder.glob("**/checkpoint/round-*")), default=0)


def wait_for(condition, process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    assert process.poll() is None, "the run ended before it could be stopped"


def test_a_killed_run_resumes_and_ends_bit_identical(whole, tmp_path):
    """SIGKILL while it collaborates, SIGKILL again later, then to the end."""
    folder = tmp_path / "run"
    for least in (3, 5):
        process = start(folder)
        main = folder / "checkpoint"
        wait_for(lambda least=least, main=main: rounds_saved(main.parent) >= least and main.is_dir(), process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (folder / "summary.json").exists()
    last = start(folder)
    _, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    equal(whole, folder)
    equal(whole / "alone", folder / "alone")


@pytest.mark.parametrize("ask", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_says_how_to_go_on(tmp_path, ask):
    folder = tmp_path / "run"
    process = start(folder)
    wait_for(lambda: rounds_saved(folder) >= 1, process)
    process.send_signal(ask)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"consilience run --resume --out {folder}" in out
    assert "Traceback" not in err
    assert rounds_saved(folder) >= 1


def children(pid: int) -> list[int]:
    """Process numbers below `pid`, from /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            child = int(stat.parent.name)
            found += [child, *children(child)]
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds worker processes through /proc")
def test_a_killed_worker_ends_the_run_at_once_with_its_name_and_the_run_resumes(whole, tmp_path):
    folder = tmp_path / "run"
    process = start(folder)
    wait_for(lambda: (folder / "checkpoint").is_dir() and rounds_saved(folder) >= 3, process)
    server = next(pid for pid in children(process.pid) if len(children(pid)) >= 1)
    os.kill(children(server)[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "the worker that ran" in err
    assert "--resume" in err
    again = start(folder)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    equal(whole, folder)
