"""An audit finds the leak of overfitted models, finds it gone under privacy, and finds out a broken mechanism."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("opacus", reason="privacy needs the extra packages: pip install 'consilience[privacy]'")

from consilience import ConsilienceError
from consilience.audit.audit import audit_run
from consilience.cli.main import app
from consilience.privacy.draws import Repeatable
from consilience.settings.presets import read_settings
from consilience.workers.work import work

pytestmark = pytest.mark.slow

FEW = {"agents.count": 5, "limit": 60, "epochs": 20, "rounds": 5, "warmup": 4, "canaries": 40, "references": []}


def audited(folder, **more):
    work(read_settings("digits-mlp", FEW | more), folder)
    return audit_run(folder)


def by_name(found):
    return {one.name: one.auc for one in found.attacks}


def test_the_leak_of_overfitted_models_is_found(tmp_path):
    found = audited(tmp_path)
    assert by_name(found)["model, calibrated"].value >= 0.65 and by_name(found)["model, calibrated"].low > 0.5
    assert by_name(found)["student, calibrated"].low > 0.5, "from what was released alone"
    assert found.bound > 1 and found.claimed is None and not found.broken
    assert np.mean([one.distance for one in found.classes]) < np.mean([one.blind for one in found.classes])
    assert json.loads((tmp_path / "audit.json").read_text())["bound"] == found.bound


def test_it_is_gone_at_epsilon_1(tmp_path):
    found = audited(tmp_path, **{"agents.epsilon": 1.0})
    for name in ("student, calibrated", "model, calibrated"):
        assert by_name(found)[name].low <= 0.5 <= by_name(found)[name].high
    assert found.claimed == pytest.approx(1, rel=0.01) and found.bound <= found.claimed


def test_noise_that_is_switched_off_behind_the_ledgers_back_fails_the_audit(tmp_path, monkeypatch):
    monkeypatch.setattr(Repeatable, "normal", lambda self, count: np.zeros(count, np.float32))
    found = audited(tmp_path, **{"agents.epsilon": 1.0, "clip": 100.0})
    assert found.claimed <= 1 < found.bound and found.broken
    result = CliRunner().invoke(app, ["audit", str(tmp_path)])
    assert result.exit_code == 1 and "does NOT keep its promise" in " ".join(result.output.split())
    assert '"broken":true' in (tmp_path / "report.html").read_text()


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(ConsilienceError, match="no run"):
        audit_run(tmp_path)
