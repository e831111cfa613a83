"""A ledger knows its rows again when they are written otherwise, and other patients are other rows."""

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError
from consilience.privacy.accountants import LedgerEntry
from consilience.privacy.ledger import LedgerFile
from consilience.privacy.row_fingerprints import OTHER, SAME, SIMILAR, relation, row_fingerprints

SECRET = bytes(range(32))
FEATURES = ["age", "pressure", "cholesterol", "height", "sex", "pain"]


def patients(seed, rows=60):
    """Features and two columns, either of which may be the label."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": draw.integers(30, 80, rows),
            "pressure": draw.normal(130, 15, rows).round(),
            "cholesterol": draw.normal(240, 50, rows).round(1),
            "height": draw.normal(170, 9, rows).round(1),
            "sex": draw.integers(0, 2, rows),
            "pain": draw.choice(["none", "typical", "other"], rows),
            "sick": draw.integers(0, 2, rows),
            "died": draw.integers(2, 4, rows),
        }
    )


def scaled(table, **factors):
    return table.assign(**{name: table[name] * factor for name, factor in factors.items()})


TABLE = patients(0)
WITHOUT_LABEL = TABLE.drop(columns="sick")
NUMBERS = WITHOUT_LABEL.drop(columns="pain")
WRITTEN_OTHERWISE = {
    "other order of rows": (WITHOUT_LABEL.sample(frac=1, random_state=1), SAME),
    "other order of columns": (WITHOUT_LABEL[WITHOUT_LABEL.columns[::-1]], SAME),
    "other names": (WITHOUT_LABEL.rename(columns=str.upper), SAME),
    "numbers as texts": (WITHOUT_LABEL.astype(str), SAME),
    "some of the rows": (WITHOUT_LABEL[:20], SAME),
    "another label": (TABLE.drop(columns="died"), SIMILAR),
    "another label, another order, some of the rows": (TABLE.drop(columns="died").iloc[10:30, ::-1], SIMILAR),
    "one column fewer": (WITHOUT_LABEL.drop(columns="height"), SIMILAR),
    "one column fewer, some of the rows": (WITHOUT_LABEL.drop(columns="age")[:20], SIMILAR),
    "one column more": (TABLE, SIMILAR),
    "one unit": (scaled(WITHOUT_LABEL, height=0.01), SIMILAR),
    "one unit, some of the rows": (scaled(WITHOUT_LABEL, height=0.01)[::2], SIMILAR),
    "all units": (scaled(WITHOUT_LABEL, age=12, pressure=0.1333, cholesterol=0.02586, height=0.3937), SIMILAR),
    "shifted and mirrored": (scaled(WITHOUT_LABEL, age=-1, pressure=-2, cholesterol=-0.5, height=-1), SIMILAR),
    "all units, two columns fewer": (scaled(TABLE[FEATURES[:4]], age=12, pressure=0.1333), SIMILAR),
}


@pytest.mark.parametrize("case", WRITTEN_OTHERWISE)
def test_rows_that_are_written_otherwise_are_known_again(case):
    rows, how = WRITTEN_OTHERWISE[case]
    old, new = row_fingerprints(WITHOUT_LABEL, SECRET), row_fingerprints(rows, SECRET)
    assert relation(new, old) == relation(old, new) == how


def test_a_table_and_an_array_of_the_same_rows_are_the_same():
    single, double = (NUMBERS.to_numpy(dtype) for dtype in (np.float32, np.float64))
    for array in (single, double, single.reshape(len(single), 2, 3), {"a": single[:, :2], "b": single[:, 2:]}):
        assert relation(row_fingerprints(array, SECRET), row_fingerprints(NUMBERS, SECRET)) == SAME


@pytest.mark.parametrize("seed", range(1, 21))
def test_other_patients_of_the_same_kind_are_other_rows(seed):
    old, new = row_fingerprints(WITHOUT_LABEL, SECRET), row_fingerprints(patients(seed).drop(columns="sick"), SECRET)
    assert relation(new, old) == relation(old, new) == OTHER


def test_what_the_docs_say_is_not_known_again():
    """All units of some of the rows; logarithms of all columns; two columns otherwise, in some of the rows."""
    old = row_fingerprints(NUMBERS, SECRET)
    every = scaled(NUMBERS, age=12, pressure=0.1333, cholesterol=0.02586, height=0.3937)
    for rows in (every[:40], np.log1p(NUMBERS), scaled(NUMBERS, age=12, height=2)[:40]):
        assert relation(row_fingerprints(rows, SECRET), old) == OTHER


def test_row_numbers_and_columns_of_few_values_make_no_rows_similar():
    one, two = (patients(seed)[["sex", "pain", "sick"]].assign(row=np.arange(60) + seed * 1000) for seed in (3, 4))
    assert relation(row_fingerprints(one, SECRET), row_fingerprints(two, SECRET)) == OTHER


def test_fingerprints_say_nothing_without_the_secret():
    one, two = row_fingerprints(TABLE, SECRET), row_fingerprints(TABLE, bytes(32))
    assert not np.isin(one.rows, two.rows).any() and not np.isin(one.without_one, two.without_one).any()
    assert one.shapes and not one.shapes & two.shapes and one.name(SECRET) != two.name(bytes(32))
    assert np.isin(row_fingerprints(TABLE[:5], SECRET).rows, one.rows).all()


def test_what_was_spent_on_rows_written_otherwise_counts(tmp_path):
    file = LedgerFile(tmp_path, WITHOUT_LABEL)
    file.add("run", LedgerEntry(1, 0.5, 2.0, 10))
    with pytest.raises(ConsilienceError, match="another run is spending on some of the same private rows"):
        LedgerFile(tmp_path, TABLE.drop(columns="died"))
    file.close()
    other = LedgerFile(tmp_path, TABLE.drop(columns="died"))
    assert other.entries == [LedgerEntry(1, 0.5, 2.0, 10)] and other.similar == [file.name]
    other.add("run 2", LedgerEntry(1, 0.5, 2.0, 5))
    other.close()
    again = LedgerFile(tmp_path, WITHOUT_LABEL.sample(frac=1, random_state=2))
    assert len(again.entries) == 2 and again.name == file.name
    again.close()


def test_wide_rows_and_texts_have_fingerprints(tmp_path):
    draw = np.random.default_rng(0)
    images = draw.normal(size=(1000, 3, 16, 16)).astype(np.float32)
    found = row_fingerprints(images, SECRET)
    assert found.without_one.shape == (1000, 0) and 0 < len(found.shapes) <= 64
    assert relation(row_fingerprints(images[:10], SECRET), found) == SAME
    texts = pd.DataFrame({"text": ["a b", "c", None, "d"]})
    assert relation(row_fingerprints(texts[1:2], SECRET), row_fingerprints(texts, SECRET)) == SAME
    sign = np.array([[0.0, np.nan], [1.0, 2.0]])
    assert (row_fingerprints(sign, SECRET).rows == row_fingerprints(sign * [[-1, 1], [1, 1]], SECRET).rows).all()
    LedgerFile(tmp_path, images).close()
