"""A comparison on the user's own table with the user's own agents, over several processes."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience.base.errors import ConsilienceError
from consilience.cli.main import app
from consilience.experiments.compare import compare
from consilience.report.page import page_data
from consilience.runtime.run import load_run
from consilience.settings.presets import read_settings

PLUGIN = """
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import consilience as cs


def make_agent(name, x, y, classes, seed):
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    steps = make_column_transformer((words, ["pain"]), (SimpleImputer(), ["age"]))
    return cs.SklearnAgent(make_pipeline(steps, LogisticRegression()), x, y, name, classes=classes, seed=seed)
"""


def test_two_workers_compare_methods_on_own_data_with_the_numbers_of_one(tmp_path):
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"age": draw.normal(55, 9, 240), "pain": draw.choice(["none", "typical"], 240)})
    ill = (table["pain"] == "typical") ^ (draw.random(240) < 0.1)
    table["diagnosis"], table["clinic"] = np.where(ill, "ill", "healthy"), draw.choice(["north", "south"], 240)
    table.loc[::5, "age"], table.loc[::7, "pain"] = np.nan, None
    table.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "clinics.py").write_text(PLUGIN)
    changes = {"plugins": [str(tmp_path / "clinics.py")], "models": ["clinics"], "low_quality": []}
    changes |= {"dataset": str(tmp_path / "patients.csv"), "label": "diagnosis", "agent": "clinic"}
    settings = read_settings("digits", changes | {"rounds": 3, "warmup": 1, "shared_per_agent": 20})
    one, two = (compare(settings, ["paper", "alone"], [0, 1], tmp_path / str(n), n).table for n in (1, 2))
    assert set(one["agent"]) == {"north", "south"} and one["accuracy_target"].min() > 0.6
    pd.testing.assert_frame_equal(
        one.drop(columns="seconds", errors="ignore"), two.drop(columns="seconds", errors="ignore")
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def call(*words: str) -> str:
    """Output of a command that must succeed."""
    result = CliRunner().invoke(app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def hospitals() -> pd.DataFrame:
    """Three hospitals' patients with numbers, words, dates, gaps and a number that identifies each."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame({"patient_id": np.arange(300) + 1000, "age": draw.integers(30, 80, 300)})
    table["pain"], table["seen"] = draw.choice(["none", "typisch, stark"], 300), "2024-03-01"
    table["weight"] = draw.normal(75, 9, 300).round(1)
    table.loc[::2, "seen"] = "2023-05-07"
    ill = (table["age"] - 55) / 8 + 2 * (table["pain"] != "none") - 1 + draw.normal(0, 0.5, 300) > 0
    table["diagnosis"], table["hospital"] = (
        np.where(ill, "ill", "healthy"),
        draw.choice(["Bern", "Genf", "Zürich"], 300),
    )
    table.loc[::9, "weight"] = np.nan
    return table


SHORT = ["--set", "rounds=3", "--set", "warmup=1", "--workers", "1"]
HOSPITALS = ["--set", "dataset=patients.csv", "--set", "label=diagnosis", "--set", "data.agent=hospital"]


def test_the_command_for_ones_own_data_makes_no_labels_wrong(folder):
    hospitals().to_csv("patients.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    out = call("run", *HOSPITALS, *SHORT)
    assert "wrong" not in out
    assert "shifted" not in out
    lines = out.splitlines()
    assert lines[0].startswith("patients.csv: 300 rows, classes healthy, ill. 3 agents (by the column 'hospital')")
    assert lines[1:4] == [
        "patients.csv is read as Latin-1 (Windows-1252).",
        "patients.csv: columns are separated by semicolons and numbers have a decimal comma.",
        "patient_id: identifier, no gaps: not used: every value is different",
    ]
    assert "weight: number, 34 gaps: scaled; gaps become the median and are marked" in lines
    assert "seen: date, no gaps: days since 1970, scaled (read as year-month-day)" in lines
    run = load_run(folder / "runs" / "patients-1")
    assert run.summary.names == ["Bern", "Genf", "Zürich"]
    assert run.last_round()["accuracy_target"].min() > 0.75, "hospital three, too"
    assert run.summary.notes == lines[: len(run.summary.notes)]
    page = (folder / "runs" / "patients-1" / "report.html").read_text()
    assert "patient_id: identifier, no gaps" in page
    assert "low_quality = []" in call("presets", "--settings", *HOSPITALS)
    assert 'partition = "natural"' in call("presets", "--settings", *HOSPITALS)


def test_compare_says_how_the_data_were_read_once_and_in_its_report(folder):
    table = hospitals()
    table["code"] = np.where(table["diagnosis"] == "ill", "I20", "Z00")
    table.to_csv("patients.csv", index=False)
    out = call("compare", *HOSPITALS, *SHORT, "--methods", "consensus,alone", "--seeds", "0-1")
    assert out.count("age: number, no gaps: scaled") == 1
    assert out.count("Warning: code alone predicts the label almost perfectly") == 1
    assert "Report: runs/compare-patients-1/compare.html" in out
    page = (folder / "runs" / "compare-patients-1" / "compare.html").read_text()
    assert "Warning: code alone predicts the label" in page
    assert "age: number, no gaps: scaled" in page


def test_labels_that_are_wrong_on_purpose_are_said_first(folder):
    hospitals().to_csv("patients.csv", index=False)
    said = "On purpose, all training labels of agent Zürich are wrong (data.low_quality)."
    out = call("run", "digits", *HOSPITALS, *SHORT, "--set", "low_quality=[2]", "--out", "wrong")
    assert out.splitlines()[0].startswith("The preset digits is for other data; of it data.low_quality=[2, 9]")
    assert out.splitlines()[1] == said
    data = page_data(load_run(folder / "wrong"))
    assert data["on_purpose"] == [said]
    assert call("report", "wrong").splitlines()[0] == said


def test_compare_says_wrong_labels_first_in_its_report(folder):
    hospitals().to_csv("patients.csv", index=False)
    call("compare", *HOSPITALS, *SHORT, "--methods", "alone", "--seeds", "0", "--set", "low_quality=[2]", "--out", "c")
    page = (folder / "c" / "compare.html").read_text()
    said = "On purpose, all training labels of agent Zürich are wrong (data.low_quality)."
    assert said in page
    assert page.index(said) < page.index('<div class="tiles">') < page.index("<h2")


def test_attackers_are_said_first_in_terminal_and_report(folder):
    hospitals().to_csv("patients.csv", index=False)
    said = "On purpose, agent Zürich lies to its peers: "
    out = call("run", *HOSPITALS, *SHORT, "--set", "attackers=[2]", "--set", "attack=flip", "--out", "attacked")
    assert out.splitlines()[0].startswith(said)
    assert page_data(load_run(folder / "attacked"))["on_purpose"][0].startswith(said)


def test_texts_in_a_csv_are_learned_by_their_words(folder):
    draw, rows = np.random.default_rng(0), []
    words = {"sport": ["goal", "match", "team", "coach"], "money": ["bank", "stock", "loan", "profit"]}
    words["health"] = ["doctor", "clinic", "nurse", "therapy"]
    filling = ["the", "a", "of", "to", "and", "in", "that", "it", "was", "for", "on", "with", "as", "his", "they", "at"]
    for topic in draw.choice(list(words), 450):
        text = [*draw.choice(filling, 8), *draw.choice(words[topic], 2)]
        rows.append((" ".join(draw.permutation(text)), topic))
    pd.DataFrame(rows, columns=["text", "topic"]).to_csv("texts.csv", index=False)
    more = ["--set", "rounds=8", "--set", "warmup=2", "--set", "agents.count=2", "--set", 'models=["forest", "mlp"]']
    out = call("run", "--set", "dataset=texts.csv", "--set", "label=topic", "--workers", "1", *more)
    assert "text: text, no gaps: tf-idf of its words" in out
    last = load_run(folder / "runs" / "texts-1").last_round().set_index("agent")["accuracy_target"]
    assert last.min() > 0.85, "chance is a third"


def test_infinity_names_row_and_column(folder):
    table = hospitals()
    table.loc[17, "weight"] = np.inf
    table.to_csv("patients.csv", index=False)
    with pytest.raises(ConsilienceError, match=r"patients.csv: line 19 has an infinite value in the column 'weight'"):
        call("run", *HOSPITALS)
