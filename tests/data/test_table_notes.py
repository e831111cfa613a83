"""What is said of a user's table: a line a column, and warnings."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience.data.columns import read_columns
from consilience.data.datasets import Dataset, Request
from consilience.data.loading import load
from consilience.data.table_notes import class_warnings, column_lines, predicts_alone


@pytest.fixture
def patients() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    age, pain = draw.integers(30, 80, 240), draw.choice(["none", "typical"], 240)
    ill = (age - 55) / 10 + 2 * (pain == "typical") - 1 + draw.normal(0, 1, 240) > 0
    table = pd.DataFrame({"patient_id": np.arange(240) + 7000, "age": age, "pain": pain})
    table["chol"] = draw.normal(220, 30, 240).round(1)
    table.loc[::8, "chol"] = np.nan
    table["illness"], table["hospital"] = np.where(ill, "ill", "well"), draw.choice(["north", "south", "west"], 240)
    return table


def read(table: pd.DataFrame, folder: Path, **request: object) -> Dataset:
    table.to_csv(folder / "patients.csv", index=False)
    asked = {"label": "illness", "agent": "hospital"} | request
    found = load(str(folder / "patients.csv"), Request(**asked))  # type: ignore[arg-type]
    assert isinstance(found, Dataset)
    return found


def test_one_line_a_column(patients, tmp_path):
    found = read(patients, tmp_path)
    assert found.notes == (
        "patient_id: identifier, no gaps: not used: every value is different",
        "age: number, no gaps: scaled",
        "pain: category, no gaps: 0 or 1 for each of 2 values",
        "chol: number, 30 gaps: scaled; gaps become the median and are marked",
    )
    assert found.warnings == ()


def test_many_columns_that_are_read_alike_share_a_line():
    draw = np.random.default_rng(0)
    table = pd.DataFrame(draw.normal(size=(20, 60)), columns=[f"pixel{number}" for number in range(60)])
    assert column_lines(read_columns(table)) == ["60 columns (pixel0, pixel1 ... pixel59): number, no gaps: scaled"]


@pytest.mark.parametrize("form", ["category", "number"])
def test_a_column_that_gives_the_label_away(patients, form, tmp_path):
    ill = patients["illness"] == "ill"
    code = np.where(ill, "I20", "Z00") if form == "category" else ill * 10 + np.random.default_rng(0).random(240)
    (warning,) = read(patients.assign(code=code), tmp_path).warnings
    assert "code alone predicts the label almost perfectly" in warning
    assert 'data.drop=["code"]' in warning
    dropped = read(patients.assign(code=code), tmp_path, drop=("code",))
    assert dropped.warnings == ()
    assert "code" not in dropped.x.columns
    assert any(line.startswith("code") and line.endswith("left out by data.drop") for line in dropped.notes)


def test_values_that_are_the_label_in_another_unit(patients, tmp_path):
    table = patients.assign(cost=patients["chol"].fillna(0) * 3, euros=patients["chol"].fillna(0) * 2.8 + 1)
    (warning,) = read(table.drop(columns="chol"), tmp_path, label="cost", task="regression").warnings
    assert warning.startswith("euros alone predicts the label")


def test_noise_gives_nothing_away(patients):
    noise = pd.Series(np.random.default_rng(1).normal(size=240), name="noise")
    (column,) = read_columns(noise.to_frame())
    labels = (patients["illness"] == "ill").to_numpy().astype(int)
    assert predicts_alone(noise, column, labels, "classification") < 0.65


def test_one_word_in_a_column_of_numbers(patients, tmp_path):
    patients["age"] = patients["age"].astype(object)
    patients.loc[17, "age"] = "sixty"
    (warning,) = read(patients, tmp_path).warnings
    assert warning.startswith("age holds numbers, but line 19 has 'sixty': the column is read as category.")
    assert "data.types.age=number" in warning
    asked = read(patients, tmp_path, types={"age": "number"})
    assert "age: number, 1 gap: scaled; gaps become the median and are marked" in asked.notes
    (warning,) = asked.warnings
    assert warning.endswith("'sixty': the column is read as numbers, and every other value is a gap.")


def test_an_identifier_that_is_used_as_a_feature(patients, tmp_path):
    (warning,) = read(patients, tmp_path, types={"patient_id": "number"}).warnings
    assert "patient_id has a different value in every row" in warning


def test_an_identifier_with_gaps_is_one(patients, tmp_path):
    patients["patient_id"] = patients["patient_id"].astype(float).where(patients.index != 3)
    assert read(patients, tmp_path).notes[0].startswith("patient_id: identifier, 1 gap: not used")


def test_columns_that_differ_between_organisations(patients, tmp_path):
    north, south = patients["hospital"] == "north", patients["hospital"] == "south"
    patients.loc[north, "chol"] /= 38.67
    patients.loc[south, "pain"] = patients["pain"][south].map({"none": "keine", "typical": "typisch"})
    patients["pressure"] = np.where(patients["hospital"] == "west", np.nan, patients["age"] % 37 + 100)
    warnings = read(patients, tmp_path).warnings
    assert len(warnings) == 3
    assert any(text.startswith("chol:") and "at north" in text and "same unit" in text for text in warnings)
    assert any(text.startswith("pain: no value at south (") and "keine" in text for text in warnings)
    assert "pressure has no values at west, but elsewhere it has." in warnings


def test_two_columns_of_one_name(patients, tmp_path):
    patients.columns = ["patient_id", "age", "pain", "age", "illness", "hospital"]
    (warning,) = read(patients, tmp_path).warnings
    assert "2 columns are called 'age'" in warning


def test_one_class_only():
    one, both = np.array([1, 1]), np.array([0, 1])
    assert class_warnings({"north": one, "south": both}, ["well", "ill"]) == [
        "agent north has rows of one class only: ill."
    ]
    assert class_warnings({"north": one * 0}, ["well"]) == ["there is one class only, well: nothing can be learned."]


def test_nearly_a_class_for_each_row():
    assert class_warnings({"north": np.arange(4), "south": np.arange(3)}, [*"abcd"]) == [
        "7 rows have 4 classes: nothing can be learned. For values set task=regression."
    ]
