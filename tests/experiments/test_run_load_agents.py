"""The agents of a run folder are those that were trained; what is not the same is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import consilience as cs
from consilience.base.errors import ConsilienceError
from consilience.cli.main import app
from consilience.experiments.run import export_run, restore
from consilience.export.folder import load_model
from consilience.runtime import checkpoint
from consilience.settings.presets import read_settings
from consilience.workers.work import work

SMALL = {
    "agents.count": 3,
    "models": ["forest", "mlp", "logistic"],
    "low_quality": [],
    "rounds": 3,
    "warmup": 1,
    "limit": 30,
    "shared_per_agent": 15,
    "references": [],
    "wire.form": "float16",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("restored") / "run"
    work(read_settings("digits", SMALL), path)
    return path


def test_restored_agents_have_the_scores_of_the_run(folder: Path) -> None:
    found = restore(folder)
    assert [agent.name for agent in found.agents] == found.run.names == ["0", "1", "2"]
    recorded = found.run.last_round().set_index("agent")["accuracy_target"]
    for agent in found.agents:
        f = agent.predict(found.scenario.target_x)
        assert (f.argmax(axis=1) == found.scenario.target_y).mean() == recorded[agent.name]


def test_the_program_exports_and_predicts(folder: Path, tmp_path: Path) -> None:
    def call(*words: str) -> str:
        result = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    found = restore(folder, ["0"])
    pixels = np.round((found.scenario.target_x.reshape(-1, 64) + 1) * 8)
    np.savez(tmp_path / "new.npz", x=pixels)
    call("export", str(folder), "--agent", "0", "--to", str(tmp_path / "model"))
    call("predict", str(tmp_path / "new.npz"), "--model", str(tmp_path / "model"), "--out", str(tmp_path / "p.csv"))
    table = np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(table, found.agents[0].predict(found.scenario.target_x), atol=1e-6)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "| target domain" in card and "| data | digits |" in card and found.run.summary.data in card
    assert "with raw pixels, whole numbers from 0 to 16" in card
    model = load_model(tmp_path / "model")
    assert model.classes == tuple("0123456789")
    with pytest.raises(ConsilienceError, match=r"takes raw pixels, whole numbers from 0 to 16, and the samples hold -"):
        model.predict(found.scenario.target_x)
    with pytest.raises(ConsilienceError, match=r"say whose model: --agent 0 \| 1 \| 2"):
        call("export", str(folder), "--to", str(tmp_path / "other"))


def test_what_is_not_the_run_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConsilienceError, match="has no agent '7'"):
        restore(folder, ["7"])
    other = shutil.copytree(folder, tmp_path / "other-data")
    (other / "SHA256SUMS").unlink()
    text = (other / "config.toml").read_text()
    (other / "config.toml").write_text(text.replace("shared_per_agent = 15", "shared_per_agent = 14"))
    with pytest.raises(ConsilienceError, match="the data are not those of the run"):
        restore(other)
    mine = tmp_path / "mine"
    shutil.copytree(folder, mine)
    (mine / "config.toml").unlink()
    (mine / "SHA256SUMS").unlink()
    with pytest.raises(ConsilienceError, match=r"made in Python.*result\.export"):
        export_run(mine, "0", tmp_path / "m")


def test_an_estimator_fitted_to_other_labels_is_not_the_trained_one(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "changed")
    (other / "SHA256SUMS").unlink()
    number, arrays, _ = checkpoint.read(other / "checkpoint")
    arrays["agent/2/labels"] = arrays["agent/2/labels"][:, ::-1].copy()
    checkpoint.write(other / "checkpoint", number + 1, arrays)
    restore(other, ["0", "1"])
    with pytest.raises(
        ConsilienceError, match=r"model of agent '2' .* its predictions differ from those after training"
    ):
        restore(other, ["2"])


def test_a_result_exports_every_agent(tmp_path: Path) -> None:
    from sklearn.naive_bayes import GaussianNB

    x = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    y = np.array(["no", "yes"])[(x[:, 0] > 0).astype(int)]
    numbers = (y == "yes").astype(int)
    agents = [
        cs.SklearnAgent(GaussianNB(), x[:10], numbers[:10], "a"),
        cs.SklearnAgent(GaussianNB(), x[10:20], numbers[10:20], "b"),
    ]
    result = cs.collaborate(agents, x[20:], method=cs.Consensus(warmup=1), rounds=2, class_names=["no", "yes"])
    result.export(tmp_path / "all")
    result.export(tmp_path / "one", agent="b")
    for place in ("all/b", "one"):
        model = load_model(tmp_path / place)
        np.testing.assert_array_equal(model.predict(x), result.agents[1].predict(x))
        assert set(model.predict_labels(x)) == {"no", "yes"}
    assert result.agents[0].estimator.theta_.shape == (2, 2)
    with pytest.raises(ConsilienceError, match="there is no agent 'c'"):
        result.export(tmp_path / "c", agent="c")
