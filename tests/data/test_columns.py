"""What the columns of a table hold."""

import numpy as np
import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.columns import read_columns

ROWS = 60
DRAW = np.random.default_rng(0)
TEXTS = [f"patient {number} came with {word} and went" for number in range(30) for word in ("cough", "fever")]


def kinds(**columns: object) -> list[str]:
    return [column.kind for column in read_columns(pd.DataFrame(columns))]


def test_kinds_of_columns_are_read_from_their_values():
    ages = DRAW.integers(20, 90, ROWS)
    assert kinds(age=ages, weight=DRAW.normal(70, 9, ROWS), smoker=ages > 50) == ["number"] * 3
    assert kinds(pain=["none", "typical angina or so", None] * 20, code=["A", "B", "C"] * 20) == ["category"] * 2
    assert kinds(note=TEXTS, few=(TEXTS[:40] + TEXTS[:20])) == ["text"] * 2
    assert kinds(name=[f"P{number:03}" for number in range(ROWS)], nr=range(7, 67)) == ["identifier"] * 2
    assert kinds(unit=["mm"] * ROWS, ward=[3] * ROWS, empty=[None] * ROWS) == ["constant"] * 3
    assert kinds(smokes=["yes", None] * 30) == ["category"], "a gap is a value, too"


def test_whole_numbers_are_identifiers_by_name_or_because_they_count():
    scattered = DRAW.permutation(100_000)[:ROWS]
    assert kinds(patient_id=scattered, PatientID=scattered, MRN=scattered) == ["identifier"] * 3
    assert kinds(cholesterol=scattered, paid=scattered, Unnamed=scattered) == ["number"] * 3
    assert kinds(patient_id=[*scattered[:-1], scattered[0]]) == ["number"], "one comes twice"
    assert kinds(row=DRAW.permutation(ROWS)) == ["identifier"]
    assert kinds(row=[3.5 + number for number in range(ROWS)]) == ["number"]


@pytest.mark.parametrize(
    ("first", "second", "written"),
    [
        ("2024-01-31", "2023-12-01", "year-month-day"),
        ("2024-01-31 10:15:00", "2023-12-01", "year-month-day"),
        ("2024-01-31T10:15:00+02:00", "2023-12-01T00:00:00Z", "year-month-day"),
        ("31.1.2024", "01.12.2023", "day.month.year"),
        ("31/01/2024", "01/12/2023", "day/month/year"),
        ("01/31/2024", "12/01/2023", "month/day/year"),
        ("2024/01/31", "2023/12/01", "year/month/day"),
    ],
)
def test_dates_that_are_texts_are_dates(first, second, written):
    (column,) = read_columns(pd.DataFrame({"seen": [first, second, None] * 10}))
    assert (column.kind, column.gaps) == ("date", 10)
    assert f"read as {written}" in column.action


def test_texts_that_are_nearly_dates_are_none():
    assert kinds(code=["2024-13-31", "2024-01-01"] * 10) == ["category"]
    assert kinds(code=["10.1", "10.1.2024"] * 10) == ["category"]


def test_each_column_has_a_line():
    table = pd.DataFrame({"age": [50, None, 61.0], "sex": ["f", "m", None], "unit": "mm", "old": [1, 2, 3]})
    lines = {column.name: column.line() for column in read_columns(table, drop=["old"])}
    assert lines == {
        "age": "number, 1 gap: scaled; gaps become the median and are marked",
        "sex": "category, 1 gap: 0 or 1 for each of 3 values; gaps are one of them",
        "unit": "constant, no gaps: not used: it has one value only",
        "old": "number, no gaps: not used: left out by data.drop",
    }


def test_the_user_overrules_kinds():
    table = pd.DataFrame({"age": ["50", "sixty", None, "70"], "ward": [1, 2, 3, 1], "id": ["a", "b", "c", "d"]})
    age, ward, number = read_columns(table, {"age": "number", "ward": "category", "id": "text"})
    assert (age.kind, age.gaps, age.asked) == ("number", 2, True)
    assert (ward.kind, number.kind) == ("category", "text")
    with pytest.raises(ConsilienceError, match=r"data.types names the column 'agee'. Did you mean 'age'\? The columns"):
        read_columns(table, {"agee": "number"})
    with pytest.raises(ConsilienceError, match=r"data.drop names the column 'wards'. Did you mean 'ward'"):
        read_columns(table, drop=["wards"])
