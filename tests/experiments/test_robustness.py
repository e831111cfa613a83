"""The robustness: what is run, what is said of it, and the page."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience import ConsilienceError, load_run
from consilience.cli.main import app
from consilience.cli.runs import split_names
from consilience.core.attacks import ATTACKS
from consilience.experiments.compare import parse_seeds
from consilience.experiments.robustness import NOBODY, Robustness, plan, summarise, verdicts
from consilience.extend import TRUST
from consilience.report.robustness import class_grid, draw, score_grid, worst_grid, write_robustness
from consilience.settings.presets import read_settings
from consilience.settings.settings import parse_change

TINY = ["rounds=3", "warmup=1", "models=logistic", "agents.count=4"]


def call(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def table(scores: dict[tuple[str, str, int], list[float]], alone: float = 0.6) -> Robustness:
    """A robustness with these scores by seed, and 0.6 for everyone alone."""
    rows = [
        {"rule": rule, "attack": attack, "attackers": count, "seed": seed, "score": score, "alone": alone}
        | {"attacked_class": score / 2 if attack in ("targeted", NOBODY) else np.nan}
        for (rule, attack, count), values in scores.items()
        for seed, score in enumerate(values)
    ]
    return Robustness(pd.DataFrame(rows), "accuracy_target", 10)


FOUND = table(
    {
        ("entropy", NOBODY, 0): [0.90, 0.92, 0.91],
        ("entropy", "flip", 1): [0.70, 0.72, 0.71],
        ("entropy", "flip", 2): [0.50, 0.52, 0.51],
        ("entropy", "targeted", 1): [0.90, 0.91, 0.92],
        ("entropy", "targeted", 2): [0.40, 0.90, 0.60],
        ("median", NOBODY, 0): [0.88, 0.90, 0.89],
        ("median", "flip", 1): [0.88, 0.90, 0.89],
        ("median", "flip", 2): [0.88, 0.90, 0.89],
        ("median", "targeted", 1): [0.88, 0.90, 0.89],
        ("median", "targeted", 2): [0.88, 0.90, 0.89],
    }
)


def test_lines_are_means_over_seeds_with_paired_differences():
    lines = {(line.rule, line.attack, line.attackers): line for line in summarise(FOUND)}
    flip = lines["entropy", "flip", 1]
    assert flip.score.mean == pytest.approx(0.71) and flip.worst == 0.70
    assert flip.gain.mean == pytest.approx(0.11)
    assert flip.lost.mean == pytest.approx((0.31 - 0.11) / 0.31)
    assert flip.attacked_class is None
    assert lines["entropy", "targeted", 1].attacked_class.mean == pytest.approx(0.455)


def test_sentences_say_where_each_rule_fails_and_from_how_many_attackers_on():
    entropy, median, cost = verdicts(FOUND)
    assert entropy == ("entropy: fails, clearly below what the honest reach alone, from 2 of 10 on under flip."), (
        "the seeds of targeted do not agree"
    )
    assert median == "median: never clearly below what the honest reach alone, up to 2 of 10 attackers."
    assert cost.startswith("median against entropy when all are honest: -0.020 ± 0.000")
    weak = table({("a", NOBODY, 0): [0.9, 0.92], ("a", "flip", 3): [0.65, 0.66]})
    assert verdicts(weak) == [
        "a: never clearly below what the honest reach alone, up to 3 of 10 attackers; clearly more than half of what "
        "collaboration brings is lost from 3 of 10 on under flip."
    ]
    one_seed = table({("a", NOBODY, 0): [0.9], ("a", "flip", 1): [0.595], ("a", "flip", 2): [0.58]})
    assert "from 2 of 10 on under flip" in verdicts(one_seed)[0]


def test_the_tables_have_a_line_per_attack_and_a_column_per_rule(tmp_path):
    grid = score_grid(FOUND)
    assert grid.headings == ("attack", "attackers", "alone", "entropy", "median")
    assert grid.rows[0] == ("-", "0 of 10", "0.600", "0.910 ± 0.025", "0.890 ± 0.025")
    assert [row[:2] for row in grid.rows[1:]] == [
        ("flip", "1 of 10"),
        ("flip", "2 of 10"),
        ("targeted", "1 of 10"),
        ("targeted", "2 of 10"),
    ]
    assert score_grid(FOUND, short=True).rows[0][3] == "0.910"
    assert worst_grid(FOUND).rows[4][2] == "0.400"
    assert [row[0] for row in class_grid(FOUND).rows] == ["-", "targeted", "targeted"]
    assert class_grid(table({("a", NOBODY, 0): [0.9], ("a", "flip", 1): [0.8]})) is None
    write_robustness(FOUND, tmp_path, "digits")
    text = (tmp_path / "robustness.md").read_text()
    assert "| flip | 2 of 10 | 0.600 |" in text and "- entropy: fails" in text


def test_the_drawing_has_a_panel_per_attack_and_a_point_per_line():
    image = draw(FOUND)
    assert image.count("<circle") == 2 * 2 * 3, "rules x attacks x numbers of attackers, zero included"
    assert ">flip</text>" in image and ">targeted</text>" in image
    for y in re.findall(r'cy="([\d.]+)"', image):
        assert 0 < float(y) < 190


def test_runs_without_attackers_are_shared_and_the_last_good_agents_lie():
    settings = read_settings("digits")
    planned = plan(settings, ["flip", "echo"], ["entropy", "stratified(sharpness=4)"], [0, 1, 2], [0, 1])
    assert len(planned) == 2 * (1 + 2 * (1 + 2 * 2))
    by_folder = {str(job.folder): job for job, _ in planned}
    assert len(by_folder) == len(planned)
    job = by_folder["seed-1/stratified(sharpness=4)/echo-2"]
    assert job.settings.data.attackers == (7, 8), "agent 9 has wrong labels"
    assert job.settings.method.trust.sharpness == 4 and job.settings.run.seed == 1
    assert by_folder["seed-0/entropy/nobody"].settings.data.attackers == ()
    assert by_folder["seed-0/alone/nobody"].settings.method.label == "alone"


@pytest.mark.parametrize(
    ("attacks", "rules", "counts", "changes", "error"),
    [
        (["flip"], ["entropy"], [10], {}, "10 attackers leave nobody honest"),
        (["flip"], ["entropy"], [8], {"low_quality": [0, 1]}, "Use at most 7"),
        ([], ["entropy"], [1], {}, "at least one attack"),
        (["none"], ["entropy"], [1], {}, "'none' is not an attack"),
        (["flop"], ["entropy"], [1], {}, "unknown attack"),
        (["flip"], ["entropia"], [1], {}, "unknown trust rule"),
        (["flip"], ["entropy(p=1)"], [1], {}, "unknown setting 'p'"),
        (["flip"], ["entropy("], [1], {}, "closing bracket"),
        (["flip"], ["entropy"], [1], {"method": "fedavg"}, "has no trust rule"),
    ],
)
def test_what_makes_no_sense_is_refused(attacks, rules, counts, changes, error):
    with pytest.raises(ConsilienceError, match=error):
        plan(read_settings("digits-mlp", changes), attacks, rules, counts, [0])


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


def test_every_rule_and_every_attack_is_explained():
    text = (Path(__file__).parents[2] / "docs" / "trust.md").read_text()
    named = set(re.findall(r"^\| `([\w-]+)", text, re.MULTILINE))
    assert set(TRUST.names()) | set(ATTACKS.names()) - {"none"} <= named


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
