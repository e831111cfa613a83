"""`consilience doctor`, between real processes."""

from pathlib import Path

import pytest

from consilience.federation.trial import lay_out
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario
from tests.conftest import slowness
from tests.federation.conftest import Launcher, Trial

pytestmark = pytest.mark.faults


def test_the_doctor_sees_who_is_there_who_is_not_and_who_differs(launcher: Launcher, tmp_path: Path) -> None:
    settings = read_settings("digits", {"agents.count": 4, "limit": 40, "low_quality": [], "shared_per_agent": 10})
    trial = Trial(launcher, tmp_path, lay_out(settings, build_scenario(settings), tmp_path, deadline=20.0), slowness())
    different = (tmp_path / "federation.toml").read_text().replace("lam = 0.5", "lam = 0.4")
    (tmp_path / "2" / "federation.toml").write_text(different)
    trial.sites["2"].write_text(trial.sites["2"].read_text().replace("../federation.toml", "federation.toml"))
    patience = str(10 * trial.slow)
    doctors = {name: trial.start_beside(name, "doctor", "--seconds", patience) for name in ("0", "1", "2")}
    assert all(trial.code(name) == 1 for name in doctors.values()), "agent 3 is missing everywhere"
    output = {name: trial.output(doctor) for name, doctor in doctors.items()}
    rows = {line.split()[1]: line for line in output["0"].splitlines() if line.startswith("│")}
    assert "valid until" in rows["1"] and "same" in rows["1"]
    assert "settings.method.lam (ours 0.5, theirs 0.4)" in rows["2"]
    assert "no connection" in rows["3"] and "no answer" in rows["3"]
    assert "settings.method.lam (ours 0.4, theirs 0.5)" in output["2"]
