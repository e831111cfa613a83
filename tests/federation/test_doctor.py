"""`consilience doctor`, between real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from consilience.federation.trial import lay_out
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario

pytestmark = pytest.mark.faults


def test_the_doctor_sees_who_is_there_who_is_not_and_who_differs(tmp_path: Path) -> None:
    settings = read_settings("digits", {"agents.count": 4, "limit": 40, "low_quality": [], "shared_per_agent": 10})
    sites = lay_out(settings, build_scenario(settings), tmp_path, deadline=20.0)
    different = (tmp_path / "federation.toml").read_text().replace("lam = 0.5", "lam = 0.4")
    (tmp_path / "2" / "federation.toml").write_text(different)
    sites["2"].write_text(sites["2"].read_text().replace("../federation.toml", "federation.toml"))
    doctors = {
        name: subprocess.Popen(
            [sys.executable, "-m", "consilience", "doctor", "--site", str(sites[name]), "--seconds", "20"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"COLUMNS": "250"},
        )
        for name in ("0", "1", "2")
    }
    output = {name: process.communicate(timeout=120)[0] for name, process in doctors.items()}
    assert all(process.returncode == 1 for process in doctors.values()), "agent 3 is missing everywhere"
    rows = {line.split()[1]: line for line in output["0"].splitlines() if line.startswith("│")}
    assert "valid until" in rows["1"] and "same" in rows["1"]
    assert "settings.method.lam (ours 0.5, theirs 0.4)" in rows["2"]
    assert "no connection" in rows["3"] and "no answer" in rows["3"]
    assert "settings.method.lam (ours 0.4, theirs 0.5)" in output["2"]
