"""Same seed, same numbers: on a rerun, in another order, on other workers, after a kill."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError, load_run
from consilience.experiments.compare import compare
from consilience.experiments.run import run_experiment
from consilience.runtime import checkpoint
from consilience.runtime.callbacks import Finished, Started, Trained
from consilience.settings.presets import read_settings
from tests.conftest import Hears

SMALL = {"method": "static", "rounds": 6, "warmup": 2, "agents.count": 5, "low_quality": [2], "references": ["alone"]}
WITHOUT_REFERENCES = SMALL | {"references": []}
FLAGS = [flag for key, value in SMALL.items() for flag in ("--set", f"{key}={value}")]


def equal(one: Path, two: Path) -> None:
    """Metrics and trust of two run folders are the same to the bit."""
    a, b = load_run(one), load_run(two)
    pd.testing.assert_frame_equal(a.metrics, b.metrics, check_exact=True)
    np.testing.assert_array_equal(a.trust, b.trust)
    assert a.summary.data == b.summary.data


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_experiment(read_settings("digits", SMALL), folder)
    return folder


def test_a_rerun_gives_the_same_bits_and_another_seed_does_not(whole, tmp_path):
    run_experiment(read_settings("digits", WITHOUT_REFERENCES), tmp_path / "again")
    equal(whole, tmp_path / "again")
    run_experiment(read_settings("digits", WITHOUT_REFERENCES | {"seed": 1}), tmp_path / "other")
    assert not np.array_equal(load_run(str(whole)).trust, load_run(tmp_path / "other").trust)


def test_agents_in_another_order_give_the_same_bits(whole, tmp_path, monkeypatch):
    """Each agent draws from its own streams, so that who trains first does not matter."""
    from consilience.workers import work as module

    def backwards(settings, scenario, names):
        return list(reversed(original(settings, scenario, names)))

    original = module.build_agents
    monkeypatch.setattr(module, "build_agents", backwards)
    run_experiment(read_settings("digits", WITHOUT_REFERENCES), tmp_path / "run", workers=1)
    equal(whole, tmp_path / "run")
    assert load_run(whole).summary.agents == load_run(tmp_path / "run").summary.agents


def start(folder: Path, *more: str, group: bool = False) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "consilience", "run", "digits", *FLAGS, *more, "--out", str(folder)]
    command += ["--resume"] if folder.exists() else []
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what runs in the background may ignore it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, text=True, preexec_fn=heeds, process_group=0 if group else None)


def rounds_saved(folder: Path) -> int:
    return max((int(path.name[6:11]) for path in folder.glob("**/checkpoint/round-*")), default=0)


def wait_for(condition, process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    assert process.poll() is None, "the run ended before it could be stopped"


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


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_run_resumes_and_ends_bit_identical(whole, tmp_path):
    """SIGKILL while it collaborates, SIGKILL again later, then to the end."""
    folder = tmp_path / "run"
    for least in (3, 5):
        process = start(folder)
        main = folder / "checkpoint"
        wait_for(lambda least=least, main=main: rounds_saved(main.parent) >= least and main.is_dir(), process)
        workers = children(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        end = time.monotonic() + 30
        while any(map(alive, workers)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(map(alive, workers)), "workers outlive the program"
        assert not (folder / "summary.json").exists()
    last = start(folder)
    _, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    equal(whole, folder)
    equal(whole / "alone", folder / "alone")


@pytest.mark.parametrize(
    "count",
    [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow), 4],
    ids="processes of it: {}".format,
)
@pytest.mark.parametrize("ask", [signal.SIGINT, signal.SIGKILL])
def test_stopped_while_its_workers_start_it_leaves_nobody_and_no_traceback(tmp_path, ask, count):
    """At the first, second, ... process that is there; a terminal sends Ctrl-C to all of them at once."""
    program = start(tmp_path / "run", "--workers", "2", group=True)
    wait_for(lambda: len(children(program.pid)) >= count, program)
    others = children(program.pid)
    if ask == signal.SIGKILL:
        program.kill()
    else:
        os.killpg(program.pid, ask)
    _, err = program.communicate(timeout=60)
    assert "Traceback" not in err, err
    end = time.monotonic() + 10
    while any(map(alive, others)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(alive, others)), "workers outlive the program"


@pytest.mark.parametrize("ask", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_says_how_to_go_on(tmp_path, ask):
    folder = tmp_path / "run"
    process = start(folder, "--set", "rounds=300")
    wait_for(lambda: rounds_saved(folder) >= 1, process)
    process.send_signal(ask)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"consilience run --resume --out {folder}" in out
    assert "Traceback" not in err
    assert rounds_saved(folder) >= 1


TINY = SMALL | {"rounds": 4, "warmup": 1, "models": ["mlp", "logistic", "cnn", "linear"], "epochs": 2, "references": []}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """One process does all of it."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    run_experiment(read_settings("digits", TINY), folder, workers=1)
    return folder


def same_folder(one: Path, two: Path) -> None:
    """Metrics, trust, what is known of the agents, and the last checkpoint are the same to the bit."""
    equal(one, two)
    a, b = load_run(one).summary, load_run(two).summary
    assert replace(a, seconds=0) == replace(b, seconds=0)
    (last, arrays, _), (also_last, others, _) = (checkpoint.read(folder / "checkpoint") for folder in (one, two))
    assert last == also_last and arrays.keys() == others.keys()
    for key in arrays.keys() - {"seconds"}:
        np.testing.assert_array_equal(arrays[key], others[key], err_msg=key)


@pytest.mark.parametrize("workers", [2, 5])
def test_agents_spread_over_workers_give_the_same_bits(tiny, tmp_path, workers):
    told = []
    run_experiment(read_settings("digits", TINY), tmp_path, workers, [Hears(lambda run, event: told.append(event))])
    assert [event.number for event in told if isinstance(event, Finished)] == [1, 2, 3, 4]
    (agents,) = [event.agents_by_worker for event in told if isinstance(event, Started)]
    assert sorted(len(names) for names in agents) == ([1] * 5 if workers == 5 else [2, 3])
    trained = sorted((event.worker, event.agent) for event in told if isinstance(event, Trained))
    assert trained == sorted((place, name) for place, names in enumerate(agents) for name in names for _ in range(4))
    same_folder(tiny, tmp_path)


class Stopped(Exception):
    """The program was stopped."""


def stop_after_two_rounds(run, event) -> None:
    if isinstance(event, Finished) and event.number == 2:
        raise Stopped


CURVES = {"method": "static", "rounds": 4, "warmup": 1, "references": []}
ALIKE = {"models": ["mlp"], "agents.count": 4, "rounds": 4, "epochs": 1, "low_quality": [], "references": []}
METHODS = ["paper(warmup=1)", "static(warmup=1)", "every-2(warmup=1)", "naive(warmup=1)", "alone"]
METHODS += ["fedavg", "fedprox", "scaffold", "feddyn", "feddf"]
METHODS += ["fedmd(warmup=1)", "ds-fl(warmup=1)", "fedct(warmup=1)", "cronus(warmup=1)", "fd"]
METHODS += ['consensus(warmup=1, learning="sequential", passes=2)', "kt-pfl(warmup=1, passes=2)"]
REPEATS = ["naive(warmup=1)", "fedprox", "ds-fl(warmup=1)", "cronus(warmup=1)"]
"""Their loop and the kinds of their state are those of another method."""
LAST = METHODS[-3:]
MIXED = ALIKE | {"models": ["mlp", "logistic"]}
SOLVED = ALIKE | {"models": ["linear"], "solver": "exact", "lam": 0.25, "warmup": 1, "prior": "even", "duals": 1.0}
SPARSE = SOLVED | {"agents.count": 6, "listening": "sparse", "listening.peers": 2, "listening.random_peers": 1}


def slow(is_slow: bool) -> list[pytest.MarkDecorator]:
    """The marker of a long repeat."""
    return [pytest.mark.slow] if is_slow else []


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("polynomial", CURVES),
        ("polynomial", CURVES | {"method.duals": 0.5}),
        ("digits", SOLVED),
        ("digits", SPARSE),
        *(pytest.param("digits", ALIKE | {"method": name}, marks=slow(name in REPEATS)) for name in METHODS),
        *(pytest.param("digits", MIXED | {"method": name}, marks=slow(name not in LAST)) for name in METHODS[-7:]),
    ],
    ids=[
        "regression",
        "regression, duals",
        "exact, duals",
        "exact, duals, some peers",
        *METHODS,
        *(f"mixed {name}" for name in METHODS[-7:]),
    ],
)
def test_every_method_stopped_on_two_workers_resumes_on_any_number_to_the_bit(tmp_path, preset, changes):
    settings = read_settings(preset, changes)
    run_experiment(settings, tmp_path / "whole", 1)
    with pytest.raises(Stopped):
        run_experiment(settings, tmp_path / "1", 2, [Hears(stop_after_two_rounds)])
    assert not active_children()
    assert rounds_saved(tmp_path / "1") >= 2
    shutil.copytree(tmp_path / "1", tmp_path / "2")
    for workers in (1, 2):
        run_experiment(settings, tmp_path / str(workers), workers)
        same_folder(tmp_path / "whole", tmp_path / str(workers))


def test_a_killed_worker_of_several_is_named_and_any_number_resumes_the_run(tiny, tmp_path):
    settings = read_settings("digits", TINY)

    def kill_one(run, event):
        if isinstance(event, Finished) and event.number == 2:
            victim = max(active_children(), key=lambda process: process.pid)
            os.kill(victim.pid, signal.SIGKILL)

    with pytest.raises(
        ConsilienceError, match=r"worker \d of static \(seed 0\), which trained agents .*; resume the run"
    ):
        run_experiment(settings, tmp_path / "run", 2, [Hears(kill_one)])
    assert not active_children()
    assert 2 <= rounds_saved(tmp_path / "run") < 4
    shutil.copytree(tmp_path / "run", tmp_path / "more")
    for folder, workers in (("run", 1), ("more", 3)):
        run_experiment(settings, tmp_path / folder, workers)
        same_folder(tiny, tmp_path / folder)


def test_torchrun_does_the_same(tiny, tmp_path):
    """Two processes, as on two machines; the first one alone prints and writes."""
    words = ["run", "digits", "--out", str(tmp_path / "run")]
    words += [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"]
    command += ["--nproc-per-node", "2", "-m", "consilience", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Report: ") == 1
    assert "worker 1 trains" in done.stdout
    same_folder(tiny, tmp_path / "run")


def test_a_killed_worker_ends_the_run_at_once_with_its_name_and_the_run_resumes(whole, tmp_path):
    """Two runs side by side, one worker each."""
    settings = read_settings("digits", SMALL)

    def kill_one(run, event):
        if isinstance(event, Finished) and event.number == 3:
            os.kill(active_children()[0].pid, signal.SIGKILL)

    with pytest.raises(ConsilienceError, match=r"the worker that ran \w+ \(seed 0\) died .*; resume the run"):
        run_experiment(settings, tmp_path / "run", 2, [Hears(kill_one)])
    assert not active_children()
    assert not (tmp_path / "run" / "summary.json").exists()
    run_experiment(settings, tmp_path / "run")
    equal(whole, tmp_path / "run")


def test_options_of_every_kind_on_workers_and_with_more_rounds_later(tmp_path):
    """Agents are spread over two workers for each method; the same rounds, in two parts, give the same bits."""
    options = {"models": ["cnn"], "agents.count": 3, "low_quality": [], "limit": 30, "shared_per_agent": 10}
    options |= {"augment": "crop-flip", "class_balanced": True, "epochs": 1}
    options |= {"warmup": 1, "prior": "even", "rounds": 4, "references": []}
    methods = ["consensus", 'feddyn(evaluate="average", warmup=1, server_ema=0.5)']

    def compared(folder: str, workers: int, rounds: int = 4):
        compare(read_settings("digits", options | {"rounds": rounds}), methods, [0], tmp_path / folder, workers)
        return [tmp_path / folder / "seed-0" / method for method in methods]

    whole, spread = compared("whole", 1), compared("spread", 4)
    compared("parts", 1, rounds=2)
    for one, two, parts in zip(whole, spread, compared("parts", 1), strict=True):
        equal(one, two)
        equal(one, parts)
    assert load_run(whole[0]).metrics["samples_trained"].min() > 0
