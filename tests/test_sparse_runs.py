"""Whole runs with sparse exchange and seldom scoring: any number of workers, resumed, saved, read and reported."""

import shutil

import numpy as np
import pandas as pd
import pytest

from consilience.experiments.run import restore
from consilience.report.page import page_data
from consilience.report.tables import run_grid
from consilience.report.theory import findings
from consilience.runtime.ensemble import weights_of
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings
from consilience.workers.job import Job
from consilience.workers.jobs import run_jobs

TINY = {"agents.count": 9, "models": ["mlp", "linear"], "limit": 30, "shared_per_agent": 4, "references": []}
TINY |= {
    "rounds": 4,
    "warmup": 1,
    "epochs": 1,
    "listening": "sparse",
    "listening.peers": 2,
    "listening.random_peers": 1,
}


def run_of(folder, workers=1, **changes):
    [run] = run_jobs([Job(read_settings("digits-mlp", TINY | changes), folder)], workers=workers)
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("whole") / "run")


def assert_same(one, other):
    pd.testing.assert_frame_equal(one.metrics, other.metrics)
    assert np.array_equal(one.sparse.peers, other.sparse.peers)
    assert np.array_equal(one.sparse.weights, other.sparse.weights)


def test_two_workers_give_the_same_bits(whole, tmp_path):
    assert_same(whole, run_of(tmp_path / "two", workers=2))


def test_a_run_goes_on_to_the_same_bits(whole, tmp_path):
    run_of(tmp_path / "run", rounds=2)
    assert_same(whole, run_of(tmp_path / "run", rounds=4))


def test_a_run_is_read_as_it_was_saved(whole, tmp_path):
    whole.save(tmp_path / "saved")
    found = load_run(tmp_path / "saved")
    assert_same(whole, found)
    assert np.array_equal(found.trust, whole.trust)
    assert found.trust.shape == (3, 9, 9)
    assert whole.metrics["bytes_sent"].sum() == 3 * 9 * 3 * (9 * 4 * 10 * 4)


def test_the_theory_of_sparse_trust_is_its_connection(whole):
    said = " ".join(findings(whole))
    assert "Agents heard 3 of 8 peers" in said
    assert "B = " in said or "does NOT hold" in said


def test_agents_are_scored_every_few_rounds_and_at_last(tmp_path):
    often = run_of(tmp_path / "often", rounds=5)
    seldom = run_of(tmp_path / "seldom", rounds=5, evaluate_every=2)
    for number, scored in ((1, False), (2, True), (3, False), (4, True), (5, True)):
        one, other = (run.metrics[run.metrics["round"] == number] for run in (often, seldom))
        assert other["accuracy_target"].notna().all() == scored
        assert other["accuracy_own"].notna().all() == scored
        if scored:
            pd.testing.assert_frame_equal(one, other)
        assert one["loss_local"].tolist() == other["loss_local"].tolist()
    assert page_data(seldom)["measures"][0]["rounds"] == [2, 4, 5]


def test_agents_are_scored_on_a_sample_that_is_the_same_for_all(tmp_path):
    few = run_of(tmp_path / "few", evaluate_sample=25)
    values = few.metrics["accuracy_target"].to_numpy() * 25
    np.testing.assert_allclose(values, values.round())
    assert few.metrics["accuracy_shared"].tolist() == run_of(tmp_path / "all").metrics["accuracy_shared"].tolist()


def test_attackers_lie_in_sparse_exchange_as_well(tmp_path):
    run = run_of(tmp_path / "lies", attackers=[1], attack="echo-each")
    assert run.metrics["accuracy_target"].notna().all()


def test_many_agents_have_a_table_and_a_page_that_stay_small(whole, tmp_path, monkeypatch):
    from consilience.core import sparse
    from consilience.report import large_runs, tables

    monkeypatch.setattr(sparse, "MOST_DENSE", 5)
    monkeypatch.setattr(large_runs, "MOST_AGENTS", 6)
    monkeypatch.setattr(large_runs, "SHOWN", 5)
    monkeypatch.setattr(tables, "MOST_ROWS", 5)
    whole.save(tmp_path / "saved")
    run = load_run(tmp_path / "saved")
    assert run.trust.shape == (0, 0, 0)
    grid = run_grid(run)
    assert [row[0] for row in grid.rows] == ["mean", "worst", "10 % are below", "median", "10 % are above", "best"]
    last = run.last_round()["accuracy_target"]
    assert grid.rows[0][1] == f"{last.mean():.3f}" and grid.rows[-1][1] == f"{last.max():.3f}"
    data = page_data(run)
    assert len(data["agents"]) == 5 and np.shape(data["trust"]["matrices"]) == (2, 5, 5)
    shown = [int(agent["name"]) for agent in data["agents"]]
    dense = whole.trust[-1][np.ix_(shown, shown)]
    np.testing.assert_allclose(data["trust"]["matrices"][-1], dense, atol=1e-3)
    received = whole.trust[-1].sum(axis=0) - np.diagonal(whole.trust[-1])
    np.testing.assert_allclose([agent["received"][1] for agent in data["agents"]], received[shown], atol=1e-3)
    assert data["sent"]["total"] == whole.metrics["bytes_sent"].sum() and data["sent"]["senders"] == 9
    scores = whole.last_round().set_index("agent")["accuracy_target"]
    assert {scores.idxmin(), scores.idxmax()} & {agent["name"] for agent in data["agents"]}
    np.testing.assert_allclose(weights_of(run).all.sum(), 1)
    np.testing.assert_allclose(weights_of(run, "3").all, whole.trust[-1][3])


def test_a_finished_run_is_made_anew_from_its_folder(tmp_path):
    run_of(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert len(restore(tmp_path / "copy").agents) == 9
