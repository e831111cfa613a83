"""Real hospitals, end to end: patients stay where they are, and collaborating pays."""

import importlib.util

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.experiments.run import run_experiment
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_agents, build_scenario

HOSPITALS = ["cleveland", "hungarian", "switzerland", "va"]


def test_hospitals_learn_from_each_other(real_data, tmp_path):
    settings = read_settings("hospitals", {"rounds": 8, "warmup": 2, "references": ["alone"]})
    run = run_experiment(settings, tmp_path / "run", workers=1)
    together, alone = run.last_round(), run.references["alone"].last_round()
    assert together["agent"].tolist() == HOSPITALS
    assert len({agent.model for agent in run.summary.agents}) == 4
    assert run.trust.shape == (6, 4, 4)
    assert together["accuracy_target"].mean() > alone["accuracy_target"].mean() + 0.03
    assert "shared/data" not in (tmp_path / "run" / "config.toml").read_text()


def test_a_run_goes_on_where_the_data_have_moved(real_data, tmp_path, data_dir, monkeypatch):
    settings = read_settings("hospitals", {"rounds": 1, "warmup": 1, "references": []})
    first = run_experiment(settings, tmp_path / "run", workers=1)
    moved = tmp_path / "moved"
    moved.mkdir()
    (moved / "heart-disease").symlink_to(data_dir / "heart-disease")
    monkeypatch.setenv("CONSILIENCE_DATA", str(moved))
    (tmp_path / "run" / "summary.json").unlink()
    again = run_experiment(settings, tmp_path / "run", workers=1)
    assert again.summary.data == first.summary.data


def test_a_hospital_whose_patients_are_all_ill_takes_part(real_data):
    settings = read_settings("hospitals", {})
    single = 0
    for seed in range(5):
        scenario = build_scenario(read_settings("hospitals", {"seed": seed}))
        share = scenario.shares["switzerland"]
        single += len(set(share.y)) == 1
        agent = build_agents(settings, scenario)[HOSPITALS.index("switzerland")]
        assert np.isfinite(agent.train(scenario.shared, None, 0.0).local)
        assert agent.predict(scenario.shared).shape == (len(scenario.shared), 2)
    assert single


def test_without_data_the_preset_says_where_to_get_them(monkeypatch):
    monkeypatch.delenv("CONSILIENCE_DATA", raising=False)
    with pytest.raises(ConsilienceError, match=r"archive.ics.uci.edu"):
        build_scenario(read_settings("hospitals", {}))


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed")
def test_six_centres_with_strong_and_weak_models_share_even_classes(real_data, tmp_path):
    changes = {
        "dataset": "fed-isic2019",
        "agents.count": 6,
        "partition": "natural",
        "models": ["linear", "cnn"],
        "limit": 8,
        "side": 32,
        "shared_per_agent": 4,
        "shared_balanced": True,
        "low_quality": [],
        "references": [],
        "rounds": 2,
        "warmup": 1,
        "epochs": 1,
    }
    settings = read_settings("digits", changes)
    scenario = build_scenario(settings)
    assert scenario.shared.shape == (24, 3, 32, 32)
    assert np.bincount(scenario.shared_y, minlength=8).tolist() == [3] * 8
    run = run_experiment(settings, tmp_path / "run", workers=1)
    assert run.last_round()["agent"].tolist() == [
        "bcn",
        "vidir_molemax",
        "vidir_modern",
        "rosendahl",
        "msk4",
        "vienna_dias",
    ]
