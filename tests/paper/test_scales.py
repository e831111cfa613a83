"""Scales of the reproduction: the protocol of the paper, and smaller ones."""

from pathlib import Path

import pytest

from consilience.paper.artefacts import artefact
from consilience.paper.scales import DATASETS, SCALES, experiment, job, settings_for


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_paper_scale_is_the_papers_protocol(dataset: str) -> None:
    chosen = settings_for(dataset, "regular", "paper").with_method("paper")
    assert (chosen.method.warmup, chosen.method.lam) == (5, 0.5)
    assert (chosen.training.epochs, chosen.training.lr) == (5, 0.005)
    assert (chosen.training.batch, chosen.training.shared_batch) == (64, 256)
    agents, shared = chosen.agents.count, chosen.data.shared_per_agent
    if dataset == "fed-isic2019":
        assert (chosen.run.rounds, agents, shared) == (20, 6, 50)
    else:
        assert (chosen.run.rounds, agents, agents * shared) == (50, 10, 3000)


def test_the_long_scale_has_all_images_the_papers_schedule_and_the_small_network() -> None:
    chosen, paper = (settings_for("cifar10", "regular", scale) for scale in ("long", "paper"))
    assert (chosen.data, chosen.training, chosen.method) == (paper.data, paper.training, paper.method)
    assert (chosen.run.rounds, chosen.agents.models, chosen.data.limit) == (25, ("convnet",), 0)


def test_scales_differ_in_size_only() -> None:
    for dataset in DATASETS:
        for scale in SCALES:
            chosen = settings_for(dataset, "low-quality", scale)
            assert len(chosen.data.low_quality) == 2
            assert chosen.data.partition == ("natural" if dataset == "fed-isic2019" else "dirichlet")
    half = settings_for("cifar10", "two-models", "cpu").agents.models
    assert tuple(half) == ("convnet",) * 5 + ("linear",) * 5


def test_a_variant_that_changes_nothing_shares_the_runs_of_the_regular_one(tmp_path: Path) -> None:
    regular = job("cifar10", "regular", "paper", "cpu", 3, tmp_path)
    assert regular.folder == tmp_path / "cifar10-regular" / "seed-3" / "paper"
    assert job("cifar10", "lam-0.5", "paper", "cpu", 3, tmp_path) == regular
    other = job("cifar10", "lam-1", "paper", "cpu", 3, tmp_path)
    assert (experiment(regular), experiment(other)) == ("cifar10-regular", "cifar10-lam-1")
    assert other.settings.method.lam == 1


def test_every_run_is_needed_for_every_seed(tmp_path: Path) -> None:
    jobs = artefact("fig6-epochs").jobs("cpu", [4, 5], tmp_path)
    assert [(one.settings.run.seed, one.settings.training.epochs, one.method) for one in jobs] == [
        (seed, epochs, method) for seed in (4, 5) for epochs in (1, 3, 5) for method in ("fedavg", "paper")
    ]
