"""Every artefact of the paper runs on real images at smoke scale, and its numbers are what its runs say."""

import numpy as np
import pytest
from consilience.experiments.jobs import run_jobs
from consilience.experiments.paper import CONSENSUS, DATASETS, METHODS, PRINTED, SCALES, settings_for
from consilience.experiments.paper_tables import mean_score
from consilience.experiments.reproduce import ARTEFACTS, artefact

from consilience import ConsilienceError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Artefacts that need the same runs share them, here as for a user."""
    return tmp_path_factory.mktemp("reproduce")


@pytest.mark.parametrize("one", ARTEFACTS, ids=lambda one: one.name)
def test_every_artefact_runs_on_real_images(one, folder, data_dir, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("CONSILIENCE_DATA", str(data_dir))
    jobs = one.jobs("smoke", [0], folder)
    runs = run_jobs(jobs)
    table = one.tabulate(list(zip(jobs, runs, strict=True)))
    assert len(table) >= 4
    numbers = table.select_dtypes("number").drop(columns=["half_width"], errors="ignore")
    assert np.isfinite(numbers.to_numpy()).all()
    assert all(sentence.endswith(".") for sentence in one.check(table))
    again = one.tabulate(list(zip(jobs, run_jobs(jobs), strict=True)))
    assert again.equals(table)
    if one.name == "communication":
        np.testing.assert_allclose(table["bytes_per_round"], table["formula_bytes"], rtol=0.01)
        consensus = table["method"].isin(CONSENSUS)
        assert (table["bytes_per_round"] == table["formula_bytes"])[consensus].all()
    if one.name == "table1-cifar10":
        ours = table.set_index(["labels", "method"])["ours"]
        for job, run in zip(jobs, runs, strict=True):
            labels = "low-quality" if job.settings.low_quality else "regular"
            assert ours[labels, job.method] == pytest.approx(mean_score(run, "cifar10"))


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_paper_scale_is_the_papers_protocol(dataset):
    chosen = settings_for(dataset, "regular", "paper")
    assert (chosen.epochs, chosen.warmup, chosen.lam, chosen.lr) == (5, 5, 0.5, 0.005)
    assert (chosen.batch, chosen.shared_batch) == (64, 256)
    if dataset == "fed-isic2019":
        assert (chosen.rounds, chosen.agents, chosen.shared_per_agent) == (20, 6, 50)
    else:
        assert (chosen.rounds, chosen.agents, chosen.agents * chosen.shared_per_agent) == (50, 10, 3000)


def test_scales_differ_in_size_only():
    for dataset in DATASETS:
        for scale in SCALES:
            chosen = settings_for(dataset, "low-quality", scale)
            assert len(chosen.low_quality) == 2
            assert chosen.partition == ("natural" if dataset == "fed-isic2019" else "dirichlet")
    half = settings_for("cifar10", "two-models", "cpu").models
    assert half == ("convnet",) * 5 + ("linear",) * 5


def test_printed_numbers_are_complete():
    assert all(len(row) == len(METHODS) for row in PRINTED.values())
    assert {dataset for dataset, _ in PRINTED} == set(DATASETS)


def test_unknown_names_are_refused():
    with pytest.raises(ConsilienceError, match="Known: fig1, figA1, fig2, table1-cifar10"):
        artefact("table2")
    with pytest.raises(ConsilienceError, match="unknown scale"):
        settings_for("cifar10", "regular", "huge")
