"""Who may go on in a run folder, and with what."""

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import consilience as cs
from consilience.runtime.folders import claim_folder
from consilience.settings.presets import read_settings, write_config
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs
from tests.conftest import blobs

TINY = {"agents.count": 2, "models": ["logistic"], "low_quality": [], "limit": 30, "shared_per_agent": 10}
TINY |= {"rounds": 2, "warmup": 1, "references": []}


def collaborated(folder, shared, rounds=3, lam=0.5, seeds=(1, 2), **more):
    agents = [
        cs.SklearnAgent(LogisticRegression(), *blobs(20, seed), name) for seed, name in zip(seeds, "ab", strict=True)
    ]
    method = cs.Consensus(warmup=1, lam=lam)
    return cs.collaborate(agents, shared, method=method, rounds=rounds, out=folder, progress=False, **more)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"lam": 3.0}, r"the option method.lam \(0.5, now 3.0\)"),
        ({"shared": blobs(40, seed=5)[0]}, "the shared data"),
        ({"seeds": (1, 3)}, "the data of agent b"),
    ],
)
def test_a_collaboration_is_resumed_with_what_it_was_begun_with(change, says, tmp_path, shared):
    collaborated(tmp_path / "run", shared)
    with pytest.raises(cs.ConsilienceError, match=f"is of another run; what differs is {says}"):
        collaborated(tmp_path / "run", **({"shared": shared, "rounds": 4, "resume": True} | change))


def test_resuming_may_add_rounds(tmp_path, shared):
    collaborated(tmp_path / "run", shared, rounds=2)
    longer = collaborated(tmp_path / "run", shared, rounds=4, resume=True)
    pd.testing.assert_frame_equal(longer.history, collaborated(None, shared, rounds=4).history)


def test_a_run_of_settings_goes_on_with_more_rounds_and_nothing_else_changed(tmp_path):
    short, long = read_settings("digits", TINY), read_settings("digits", TINY | {"rounds": 4})
    run_jobs([Job(short, tmp_path / "run")], workers=1)
    [longer] = run_jobs([Job(long, tmp_path / "run")], workers=1)
    [whole] = run_jobs([Job(long, tmp_path / "whole")], workers=1)
    pd.testing.assert_frame_equal(longer.metrics, whole.metrics)
    other = read_settings("digits", TINY | {"rounds": 4, "lam": 2.0})
    with pytest.raises(cs.ConsilienceError, match=r"made with other settings: method\.lam"):
        run_jobs([Job(other, tmp_path / "run")], workers=1)
    with pytest.raises(cs.ConsilienceError, match=r"made with other settings: run\.rounds"):
        write_config(short, tmp_path / "run")


def test_the_checkpoint_of_another_seed_is_refused(tmp_path):
    for seed in (0, 1):
        run_jobs([Job(read_settings("digits", TINY | {"seed": seed}), tmp_path / str(seed))], workers=1)
    shutil.rmtree(tmp_path / "1" / "checkpoint")
    shutil.copytree(tmp_path / "0" / "checkpoint", tmp_path / "1" / "checkpoint")
    (tmp_path / "1" / "summary.json").unlink()
    with pytest.raises(cs.ConsilienceError, match=r"of another run; what differs is the seed \(0, now 1\)"):
        run_jobs([Job(read_settings("digits", TINY | {"seed": 1}), tmp_path / "1")], workers=1)


def test_one_process_at_a_time_and_a_dead_one_holds_nothing(tmp_path):
    code = "import sys, pathlib, consilience.runtime.folders as f; f.claim_folder(pathlib.Path(sys.argv[1]), False)"
    wait = f"{code}; print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", wait, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(cs.ConsilienceError, match="another process works in"):
            claim_folder(tmp_path / "run", resume=True)
        other.kill()
    claim_folder(tmp_path / "run", resume=True)
    claim_folder(tmp_path / "run", resume=False)


def test_a_misspelt_folder_is_not_resumed(tmp_path):
    with pytest.raises(cs.ConsilienceError, match=r"no run in .*typo to resume"):
        claim_folder(tmp_path / "typo", resume=True)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"target": (np.zeros((2, 6), np.float32), np.array([0, 7]))}, "labels from 0 to 7, but the agents know"),
        ({"own": {"bb": blobs(5, 1)}}, "own has data of 'bb'. .*The agents are a, b"),
        ({"rounds": 0}, "rounds is 0"),
    ],
)
def test_data_that_fit_nobody_are_refused(more, says, shared):
    with pytest.raises(cs.ConsilienceError, match=says):
        collaborated(None, shared, **more)


def test_fewer_rounds_than_the_warm_up_are_refused(shared):
    agents = [cs.SklearnAgent(LogisticRegression(), *blobs(20, seed)) for seed in (1, 2)]
    with pytest.raises(cs.ConsilienceError, match=r"3 rounds, and the warm-up of consensus alone has 5"):
        cs.collaborate(agents, shared, rounds=3, progress=False)
