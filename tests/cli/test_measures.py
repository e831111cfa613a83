"""The command `robustness`."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience import ConsilienceError, load_run
from consilience.cli.main import app
from consilience.cli.runs import split_names
from consilience.core.attacks import ATTACKS
from consilience.experiments.axes import parse_seeds
from consilience.experiments.robustness import plan
from consilience.settings.presets import read_settings
from consilience.settings.settings import parse_change

TINY = ["rounds=3", "warmup=1", "models=logistic", "agents.count=4"]


def call(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    changes = [word for change in TINY for word in ("--set", change)]
    attacks = ["--attacks", "flip,targeted", "--attackers", "1-2", "--seeds", "0-1", "--workers", "1"]
    return ["robustness", "digits-mlp", *changes, *attacks, "--out", "out"]


def test_the_command_from_nothing_to_the_page_and_on(tiny, tmp_path):
    said = call(*tiny, "--rules", "entropy")
    assert "targeted" in said and "2 of 4" in said and "entropy: " in said
    found = pd.read_csv("out/robustness.csv")
    assert len(found) == 2 * (1 + 2 * 2)
    one = load_run(tmp_path / "out/seed-1/entropy/flip-2")
    row = found[(found["seed"] == 1) & (found["attack"] == "flip") & (found["attackers"] == 2)].iloc[0]
    last = one.last_round()
    assert row["score"] == pytest.approx(last[~last["attacker"]]["accuracy_target"].mean())
    alone = load_run(tmp_path / "out/seed-1/alone/nobody").last_round().set_index("agent")
    assert row["alone"] == pytest.approx(alone.loc[["0", "1"], "accuracy_target"].mean())
    written = (tmp_path / "out/seed-1/entropy/flip-2/summary.json").stat().st_mtime_ns
    with pytest.raises(ConsilienceError, match="not overwritten"):
        call(*tiny, "--rules", "entropy")
    call(*tiny, "--rules", "entropy,median", "--resume")
    assert (tmp_path / "out/seed-1/entropy/flip-2/summary.json").stat().st_mtime_ns == written, "not run again"
    again = pd.read_csv("out/robustness.csv")
    pd.testing.assert_frame_equal(again[again["rule"] == "entropy"].reset_index(drop=True), found)
    with pytest.raises(ConsilienceError, match="made with other settings"):
        call(*tiny, "--rules", "entropy", "--resume", "--set", "lam=1")
    page = (tmp_path / "out/robustness.html").read_text()
    outside = re.sub(r'xmlns="http://www.w3.org/2000/svg"', "", page)
    assert "http" not in outside.replace("http-equiv", "") and "<script" not in page
    assert "default-src 'none'" in page and "__" not in page
    assert "<svg" in page and "Where does each rule fail?" in page
    assert (tmp_path / "out/robustness.svg").read_text() in page


def test_all_attacks_are_listed():
    said = call("robustness", "--list")
    names = re.findall(r"^(\S+)", said, re.MULTILINE)
    assert "echo-each" in names and "worst-honest" in names and "none" not in names


def test_the_commands_of_the_documentation_are_understood():
    text = (Path(__file__).parents[2] / "research" / "robustness.md").read_text()
    commands = re.findall(r"^consilience robustness (\S+) (.*)$", text, re.MULTILINE)
    assert commands
    for source, rest in commands:
        words = shlex.split(rest)
        given = {word: value for word, value in pairwise(words) if word.startswith("--") and word != "--set"}
        changes = dict(parse_change(value) for word, value in pairwise(words) if word == "--set")
        attacks = [name for name in ATTACKS.names() if name != "none"]
        attacks = attacks if given["--attacks"] == "all" else split_names(given["--attacks"])
        counts, seeds = parse_seeds(given["--attackers"]), parse_seeds(given["--seeds"])
        assert plan(read_settings(source, changes), attacks, split_names(given["--rules"]), counts, seeds)
