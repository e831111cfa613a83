"""Who may go on in a run folder, and with what."""

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

import consilience as cs
from consilience.runtime.run import claim_folder
from consilience.settings.presets import read_settings, write_config
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs
from tests.conftest import blobs
from tests.torch_options import torch_options

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


def mixed_agents(order="nef", network=None, estimator=None):
    """A network, an estimator and a pipeline, each with its own settings."""
    torch.manual_seed(3)
    x, y = blobs(30, 4)
    model = nn.Sequential(nn.Linear(x.shape[1], 8), nn.Dropout((network or {}).pop("dropout", 0.2)), nn.Linear(8, 3))
    scaled = make_pipeline(StandardScaler(), FunctionTransformer(np.tanh), RandomForestClassifier(5, random_state=0))
    scaled.set_params(**{key: value for key, value in (estimator or {}).items() if "__" in key})
    plain = {key: value for key, value in (estimator or {}).items() if "__" not in key}
    agents = {
        "n": cs.TorchAgent(model, x, y, "n", **torch_options(**({"epochs": 1} | (network or {})))),
        "e": cs.SklearnAgent(LogisticRegression(), *blobs(20, 1), "e", **plain),
        "f": cs.SklearnAgent(scaled, *blobs(20, 2), "f"),
    }
    return [agents[name] for name in order]


def mixed(folder, shared, rounds=3, resume=False, **changes):
    method = cs.Consensus(warmup=1, schedule="static")
    agents = mixed_agents(**changes)
    return cs.collaborate(agents, shared, method=method, rounds=rounds, out=folder, resume=resume, progress=False)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"order": "enf"}, r"the order of the agents \(n, e, f, now e, n, f\)"),
        ({"network": {"lr": 0.5}}, r"the optimizer of agent n \(Adam lr=0.005, now Adam lr=0.5\)"),
        ({"network": {"epochs": 2}}, r"epochs of agent n \(1, now 2\)"),
        ({"network": {"seed": 2}}, r"the seed of agent n \(0, now 2\)"),
        ({"network": {"class_balanced": True}}, r"class_balanced of agent n \(False, now True\)"),
        (
            {"network": {"batch": 5, "decay": 0.5}},
            r"batch of agent n \(64, now 5\); decay of agent n \(2e-05, now 0.5\)",
        ),
        ({"network": {"dropout": 0.7}}, r"the layers of agent n \(.*, now .*\)"),
        ({"estimator": {"seed": 7}}, r"the seed of agent e \(0, now 7\)"),
        ({"estimator": {"soft_labels": "drawn"}}, r"soft_labels of agent e \(auto, now drawn\)"),
        (
            {"estimator": {"randomforestclassifier__n_estimators": 9}},
            r"the parameter randomforestclassifier__n_estimators of agent f \(5, now 9\)",
        ),
        (
            {"estimator": {"functiontransformer__func": np.abs}},
            r"the parameter functiontransformer__func of agent f \(tanh, now absolute\)",
        ),
    ],
    ids=lambda given: None if isinstance(given, str) else "-".join(map(str, next(iter(given.values())))),
)
def test_other_settings_of_agents_are_refused_and_named(changes, says, tmp_path, shared):
    mixed(tmp_path / "run", shared)
    with pytest.raises(cs.ConsilienceError, match=f"is of another run; what differs is {says}\\. Resume with"):
        mixed(tmp_path / "run", shared, rounds=4, resume=True, **changes)


def test_agents_made_again_in_another_process_resume_to_the_same_bits(tmp_path, shared):
    """Settings that hold functions and estimators look the same in every process."""
    code = "import numpy as np, sys; from tests.runtime.test_run_state import mixed\n"
    code += "mixed(sys.argv[1], np.load(sys.argv[2]))"
    np.save(tmp_path / "shared.npy", shared)
    command = [sys.executable, "-c", code, str(tmp_path / "run"), str(tmp_path / "shared.npy")]
    subprocess.run(command, check=True)
    longer = mixed(tmp_path / "run", shared, rounds=4, resume=True, estimator={"randomforestclassifier__n_jobs": 1})
    pd.testing.assert_frame_equal(longer.history, mixed(None, shared, rounds=4).history)


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
    code = "import sys, pathlib, consilience.runtime.run as f; f.claim_folder(pathlib.Path(sys.argv[1]), False)"
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
    with pytest.raises(cs.ConsilienceError, match="rounds is 3, and the warm-up of consensus alone has 5 rounds"):
        cs.collaborate(agents, shared, rounds=3, progress=False)
