"""What all agents say together, beside each agent."""

from pathlib import Path

import numpy as np

from consilience.experiments.ensemble import measure_collective
from consilience.experiments.run import restore
from consilience.settings.presets import read_settings
from tests.experiments.test_run_load_agents import SMALL


def test_collective_prediction_is_measured_beside_the_agents(tmp_path: Path) -> None:
    settings = read_settings("digits", SMALL | {"models": ["logistic"], "method.trust": "stratified"})
    title, [line] = measure_collective(settings, ["paper"], [3], tmp_path, workers=1)
    found = restore(tmp_path / "seed-3" / "paper")
    x, y = found.scenario.target_x, found.scenario.target_y
    each = [(agent.predict(x).argmax(axis=1) == y).mean() for agent in found.agents]
    assert (title, line.best) == ("accuracy", max(each)) and np.isclose(line.mean, np.mean(each))
    even = np.mean([agent.predict(x) for agent in found.agents], axis=0)
    assert np.isclose(line.even, (even.argmax(axis=1) == y).mean())
    assert np.isclose(line.over_best.mean, line.collective - line.best)
