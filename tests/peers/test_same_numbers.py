"""All present and no faults: every site's numbers are those of the simulation, to the bit."""

from dataclasses import replace

import numpy as np
from consilience.experiments.build import build_scenario
from consilience.experiments.settings import read_settings
from consilience.experiments.trial import lay_out

from consilience.experiments.run import run_experiment
from consilience.runtime.run import load_run
from tests.peers.conftest import Trial

SMALL = {
    "agents": 3,
    "models": ["logistic", "mlp", "forest"],
    "low_quality": [],
    "rounds": 4,
    "warmup": 1,
    "limit": 30,
    "shared_per_agent": 15,
    "references": [],
}
COLUMNS = ["round", "accuracy_own", "accuracy_target", "balanced_accuracy_own", "balanced_accuracy_target"]
COLUMNS += ["loss_local", "loss_disagreement", "bytes_sent"]


def test_sites_of_a_federation_get_the_numbers_of_the_simulation(launcher, tmp_path):
    settings = read_settings("digits", SMALL)
    trial = Trial(launcher, tmp_path, lay_out(settings, build_scenario(settings), tmp_path / "trial", deadline=60.0))
    trial.start()
    simulated = run_experiment(replace(settings), tmp_path / "simulation", workers=1)
    trial.finish()
    for place, name in enumerate(trial.names):
        site = load_run(trial.sites[name].parent / "run")
        own = simulated.metrics[simulated.metrics["agent"] == name]
        for column in COLUMNS:
            np.testing.assert_array_equal(site.metrics[column].to_numpy(), own[column].to_numpy(), err_msg=column)
        known = site.metrics["disagreement"].notna().to_numpy()
        assert known.tolist() == [True, True, True, False]
        for column in ("disagreement", "spread"):
            np.testing.assert_array_equal(site.metrics[column][known], own[column].to_numpy()[known])
        np.testing.assert_array_equal(site.trust[:, 0], simulated.trust[:, place])
        np.testing.assert_array_equal(site.trust_rounds, simulated.trust_rounds)
        assert len(site.trust) == 3 and all(not one["absent"] for one in trial.events(name, "round"))
