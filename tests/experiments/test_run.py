"""The default experiment, end to end through the command line, and what its folder holds."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience import load_run
from consilience.base import toml
from consilience.base.options import flat, to_table
from consilience.core.consensus import trust_received
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings

LOW_QUALITY = [2, 9]
KINDS = {".toml", ".parquet", ".npz", ".json", ".safetensors", ".html"}


@pytest.fixture(scope="module")
def default(tmp_path_factory) -> tuple[Path, str]:
    """The folder and the output of `consilience run`, as a real process."""
    folder = tmp_path_factory.mktemp("default") / "run"
    command = [sys.executable, "-m", "consilience", "run", "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env={"COLUMNS": "120", "PATH": ""})
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_every_agent_with_good_labels_gets_better(default):
    run = load_run(default[0])
    together, alone = run.last_round(), run.references["alone"].last_round()
    gain = together["accuracy_target"].to_numpy() - alone["accuracy_target"].to_numpy()
    good = ~together["low_quality"].to_numpy()
    assert (gain[good] > 0.05).all()
    assert gain[good].mean() > 0.15


def test_consensus_beats_naive_trust_and_training_alone(default):
    run = load_run(default[0])

    def mean(one) -> float:
        table = one.last_round()
        return float(table[~table["low_quality"]]["accuracy_target"].mean())

    assert mean(run) > mean(run.references["naive"]) > mean(run.references["alone"])


def test_wrong_labels_are_trusted_least_at_first_and_then_pulled_in(default):
    run = load_run(default[0])
    good = np.setdiff1d(np.arange(10), LOW_QUALITY)
    for w in run.trust[:3]:
        received = trust_received(w)
        assert received[LOW_QUALITY].max() < received[good].min()
    first, last = trust_received(run.trust[0]), trust_received(run.trust[-1])
    assert (last[LOW_QUALITY] > first[LOW_QUALITY]).all()


def test_the_folder_holds_all_that_is_promised(default):
    folder = default[0]
    assert flat(toml.read(folder / "config.toml")).keys() == flat(to_table(Settings())).keys()
    metrics = pd.read_parquet(folder / "metrics.parquet")
    assert len(metrics) == 15 * 10
    places = ("shared", "target", "own")
    kinds = ("accuracy", "balanced_accuracy", "auc", "log_loss", "calibration_error")
    scores = [f"{kind}_{place}" for kind in kinds for place in places]
    assert metrics[[*scores, "loss_local", "disagreement", "disagreement_all"]].notna().all().all()
    assert metrics["loss_disagreement"].notna().groupby(metrics["round"]).all().tolist() == [False] * 5 + [True] * 10
    sent = metrics.groupby("round")["bytes_sent"].sum()
    assert sent.tolist() == [0] * 5 + [10 * 9 * 300 * 10 * 4] * 10
    with np.load(folder / "trust.npz", allow_pickle=False) as trust:
        assert trust["trust"].shape == (10, 10, 10)
        assert trust["rounds"].tolist() == list(range(6, 16))
        assert trust["agents"].tolist() == [str(i) for i in range(10)]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["seed"] == 0
    assert len(summary["data"]) == 64
    assert summary["seconds"] > 0
    assert {"consilience", "torch", "numpy", "python"} <= summary["versions"].keys()
    assert [agent["low_quality"] for agent in summary["agents"]] == [i in LOW_QUALITY for i in range(10)]
    assert {agent["model"] for agent in summary["agents"]} == {"cnn", "mlp", "forest", "boosting", "logistic"}
    assert list((folder / "checkpoint").glob("round-00015.*.safetensors"))
    assert 10_000 < (folder / "report.html").stat().st_size < 5_000_000


def test_no_file_of_a_run_is_a_pickle(default):
    for path in default[0].rglob("*"):
        assert path.is_dir() or path.name in ("SHA256SUMS", ".lock") or path.suffix in KINDS


def test_the_screen_answers_the_questions(default):
    for words in ("alone", "together", "gain", "95 % interval", "trust", "consensus", "naive", "shifted"):
        assert words in default[1]
    assert "Sent: 10.8 MB in all" in default[1]
    assert "Sharing weights is not possible here" in default[1]


def test_methods_share_data_and_initial_models(default):
    run = load_run(default[0])
    assert {one.summary.data for one in (run, *run.references.values())} == {run.summary.data}
    warmup = [one.metrics[one.metrics["round"] <= 5] for one in (run, *run.references.values())]
    pd.testing.assert_frame_equal(warmup[0], warmup[1])
    pd.testing.assert_frame_equal(warmup[0], warmup[2])


def test_the_config_of_a_run_is_a_valid_input(default, tmp_path):
    assert read_settings(str(default[0] / "config.toml"), {}) == read_settings("digits", {})
