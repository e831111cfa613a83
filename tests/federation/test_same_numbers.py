"""All present and no faults: every site's numbers are those of the simulation, to the bit."""

import numpy as np

from consilience.experiments.run import run_experiment
from consilience.federation.trial import lay_out
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario
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
}
SCORES = ("accuracy", "balanced_accuracy", "auc", "log_loss", "calibration_error")
COLUMNS = ["round", "loss_local", "loss_disagreement", "bytes_sent"]
COLUMNS += [f"{score}_{place}" for score in SCORES for place in ("own", "target")]


def test_sites_of_a_federation_get_the_numbers_of_the_simulation(launcher, tmp_path):
    settings = read_settings("digits", SMALL)
    trial = Trial(launcher, tmp_path, lay_out(settings, build_scenario(settings), tmp_path / "trial", deadline=60.0))
    trial.start()
    simulated = run_experiment(settings, tmp_path / "simulation", workers=1)
    trial.finish()
    for place, name in enumerate(trial.names):
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
        np.testing.assert_array_equal(site.trust[:, 0], simulated.trust[:, place])
        np.testing.assert_array_equal(site.trust_rounds, simulated.trust_rounds)
        assert len(site.trust) == 3 and all(not one["absent"] for one in trial.events(name, "round"))
        models = {agent.name: agent.model for agent in site.summary.agents}
        assert models == dict.fromkeys(trial.names, "unknown") | {name: SMALL["models"][place]}
        assert "Accuracy alone → together" in trial.output(name)
        assert (trial.sites[name].parent / "run" / "report.html").is_file()
