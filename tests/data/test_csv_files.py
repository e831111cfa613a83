"""CSV files with other separators and encodings."""

from pathlib import Path

import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.csv_files import read_csv

ROWS = "age;weight;town\n50;70,5;Köln\n61;80;Zürich\n?;66,25;\n"


@pytest.mark.parametrize(
    ("text", "encoding", "notes"),
    [
        (ROWS.replace(",", ".").replace(";", ","), "utf-8", []),
        (ROWS.replace(",", ".").replace(";", ","), "utf-8-sig", []),
        (ROWS, "utf-8", ["columns are separated by semicolons and numbers have a decimal comma."]),
        (ROWS.replace(",", ".").replace(";", "\t"), "utf-8", ["columns are separated by tabs."]),
        (ROWS.replace(",", ".").replace(";", ","), "latin-1", ["is read as Latin-1 (Windows-1252)."]),
        (ROWS.replace(",", ".").replace(";", ","), "utf-16", ["is read as UTF-16."]),
        (ROWS.replace(",", ".").replace(";", ","), "utf-16-le", ["is read as UTF-16."]),
        (ROWS, "utf-16-be", ["is read as UTF-16.", "columns are separated by semicolons and numbers have"]),
    ],
)
def test_separators_and_encodings_are_recognised_and_said(text, encoding, notes, tmp_path: Path):
    path = tmp_path / "patients.csv"
    path.write_bytes(text.encode(encoding))
    table, said = read_csv(path)
    assert list(table.columns) == ["age", "weight", "town"]
    assert table["weight"].tolist() == [70.5, 80, 66.25]
    assert table["town"].tolist()[:2] == ["Köln", "Zürich"]
    assert table.isna().to_numpy().sum() == 2
    assert len(said) == len(notes)
    for note, expected in zip(said, notes, strict=True):
        assert "patients.csv" in note
        assert expected in note


def test_a_semicolon_within_a_text_separates_nothing(tmp_path: Path):
    path = tmp_path / "notes.csv"
    path.write_text('note,age\n"cough; fever",50\n"cold; cough; fever",61\nnone,70\n')
    table, said = read_csv(path)
    assert table["age"].tolist() == [50, 61, 70]
    assert said == []
    path.write_text("one\na\nb\n")
    assert read_csv(path)[0]["one"].tolist() == ["a", "b"]


def test_two_columns_of_one_name_are_said(tmp_path: Path):
    path = tmp_path / "patients.csv"
    path.write_text("age,age,ill\n50,51,1\n60,61,0\n")
    table, said = read_csv(path)
    assert list(table.columns) == ["age", "age.1", "ill"]
    assert said == [
        "patients.csv: 2 columns are called 'age'; the first keeps the name, and the other is read as 'age.1'."
    ]


def test_more_values_than_names_are_refused(tmp_path: Path):
    path = tmp_path / "patients.csv"
    path.write_text("age,ill\n7,50,1\n8,60,0\n")
    with pytest.raises(ConsilienceError, match=r"the rows have more values than the header has names"):
        read_csv(path)


def test_a_line_with_too_many_values_is_named(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("age,pain\n40,none\n50,typical, strong\n")
    with pytest.raises(ConsilienceError, match=r"long.csv: line 3 has 3 values, and the lines before it have 2"):
        read_csv(path)
