"""Tables with words, texts, gaps and dates as numbers."""

import json

import numpy as np
import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.columns import MOST_CATEGORIES, plain_values, read_columns
from consilience.data.preprocess import stored_preprocessing, table_preprocessing

SHARED = pd.DataFrame(
    {
        "age": [50.0, 60.0, np.nan, 70.0],
        "pain": ["none", None, "typical", "none"],
        "kind": pd.Categorical(["a", "b", "a", "b"]),
        "seen": pd.to_datetime(["1970-01-02", "1970-01-04", None, "1970-01-03"]),
        "smoker": [True, False, True, False],
        "unknown": [np.nan] * 4,
    }
)
OTHER = pd.DataFrame(
    {
        "smoker": [True],
        "seen": ["1970-01-02"],
        "kind": ["new"],
        "pain": [None],
        "age": [50],
        "more": ["ignored"],
    }
)


def test_gaps_words_categories_dates_and_flags_become_finite_numbers():
    x = table_preprocessing(SHARED)(SHARED)
    assert x.dtype == np.float32
    assert np.isfinite(x).all()
    # age, seen, smoker; where age and seen were missing; three words of pain; two kinds
    assert x.shape == (4, 3 + 2 + 3 + 2)
    np.testing.assert_allclose(x[:, :3].mean(axis=0), 0, atol=1e-6)
    filled = (np.array([50, 60, 60, 70]) - 60) / np.std([50, 60, 60, 70])
    np.testing.assert_allclose(x[:, 0], filled, rtol=1e-6)
    np.testing.assert_array_equal(x[:, 5:8].sum(axis=1), 1)


def test_other_rows_are_read_as_the_shared_ones_were():
    read = table_preprocessing(SHARED)
    x = read(OTHER)
    assert x.shape == (1, 10)
    np.testing.assert_allclose(x[0, :2], read(SHARED)[0, :2], rtol=1e-6)
    assert x[0, 8:].sum() == 0, "a word that the shared data do not have"
    with pytest.raises(ConsilienceError, match=r"the table has no column 'age'. It has: "):
        read(OTHER.drop(columns="age"))
    with pytest.raises(
        ConsilienceError, match=r"cannot be read as the shared data are.*'age' holds numbers.*0 has 'old'"
    ):
        read(OTHER.assign(age="old"))


def test_a_kind_that_was_asked_for_makes_other_values_gaps():
    read = table_preprocessing(SHARED, read_columns(SHARED, {"age": "number"}))
    gap = read(OTHER.assign(age=None))
    np.testing.assert_array_equal(read(OTHER.assign(age="old")), gap)


def test_a_category_with_many_values_does_not_grow_without_end():
    table = pd.DataFrame({"name": [f"n{number}" for number in range(200)]})
    read = table_preprocessing(table, read_columns(table, {"name": "category"}))
    assert read(table).shape == (200, MOST_CATEGORIES)
    with pytest.raises(ConsilienceError, match=r"no column .* can be used as a feature: name \(not used: every value"):
        table_preprocessing(table)


def test_texts_become_tf_idf_by_the_words_of_the_shared_rows():
    texts = [f"the patient {word} about {number} pains today" for number in range(20) for word in ("coughs", "sneezes")]
    shared = pd.DataFrame({"note": texts, "age": range(40, 80)})
    read = table_preprocessing(shared, read_columns(shared, {"age": "number"}))
    coughs, other, nothing = read(pd.DataFrame({"age": 50, "note": ["he coughs", "quite unheard words", None]}))
    words = list(read.texts[0].words)
    assert coughs[1 + words.index("coughs")] == pytest.approx(1)
    assert not other[1:].any()
    assert not nothing[1:].any()


def test_an_array_is_read_as_a_table_with_the_same_columns():
    table = pd.DataFrame({"patient_id": range(100, 130), "age": np.linspace(30, 80.3, 30)})
    columns = read_columns(table)
    assert [column.used for column in columns] == [False, True]
    by_table, by_array = table_preprocessing(table), table_preprocessing(table.to_numpy(np.float32), columns)
    np.testing.assert_array_equal(by_table(table), by_array(table.to_numpy(np.float32)))
    np.testing.assert_array_equal(by_array(table[["age"]]), by_table(table))


def rows(number: int) -> pd.DataFrame:
    """A table with everything in it: gaps, flags, dates in two forms, many categories, long texts."""
    draw = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": np.where(draw.random(number) < 0.2, np.nan, draw.normal(60, 9, number)),
            "flag": draw.random(number) < 0.5,
            "pain": draw.choice(["none", "typical", None], number),
            "town": [f"t{int(k)}" for k in draw.exponential(12, number)],
            "when": pd.to_datetime("2020-01-01") + pd.to_timedelta(draw.integers(0, 900, number), unit="D"),
            "day": [f"{k % 28 + 1:02d}.{k % 12 + 1:02d}.2021" for k in range(number)],
            "note": [" ".join(draw.choice([f"word{k}" for k in range(3000)], 8)) for _ in range(number)],
        }
    )
    table.loc[::9, "when"] = pd.NaT
    return table


def test_features_are_those_of_scikit_learn_to_the_bit():
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    table = rows(400)
    shared, columns = table[:200], read_columns(table[:200])
    plain = pd.DataFrame({column.name: plain_values(table[column.name], column) for column in columns})
    fill = SimpleImputer(strategy="median", add_indicator=True)
    encode = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES, sparse_output=False)
    steps = [
        ("numbers", make_pipeline(fill, StandardScaler()), ["age", "flag", "when", "day"]),
        ("words", encode, ["pain", "town"]),
        ("text", TfidfVectorizer(max_features=2000, sublinear_tf=True), "note"),
    ]
    wanted = ColumnTransformer(steps, sparse_threshold=0).fit(plain[:200]).transform(plain).astype(np.float32)
    np.testing.assert_array_equal(table_preprocessing(shared)(table), wanted)


def test_preprocessing_is_stored_as_numbers_and_words_to_the_bit():
    table = rows(200)
    read = table_preprocessing(table[:100])
    again = stored_preprocessing(read.to_json(), "prepare.json")
    np.testing.assert_array_equal(again(table[list(reversed(table.columns))].assign(more=1)), read(table))
    assert again.needed == read.needed and again.meanings == read.meanings and again.to_json() == read.to_json()
    assert again.words == ("pain", "town", "day", "note")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table["numbers"][0].update(deviation=0.0), "deviation is 0.0; it must be above 0"),
        (lambda table: table["numbers"][0].update(median=float("nan")), "median is nan; it must be a finite number"),
        (lambda table: table["texts"][0]["idf"].pop(), "do not have one weight each"),
        (lambda table: table["texts"][0]["words"].append(1), "words"),
        (lambda table: table["columns"].pop(), "columns and their features do not fit"),
        (lambda table: table["columns"][0].update(kind="category"), "columns and their features do not fit"),
        (lambda table: table["columns"][0].update(date_format="%s"), "date_format"),
        (lambda table: table.update(code="import os"), "unknown setting 'code'"),
    ],
)
def test_what_is_stored_is_read_strictly(change, message):
    table = json.loads(table_preprocessing(rows(100)).to_json())
    change(table)
    with pytest.raises(ConsilienceError, match=message):
        stored_preprocessing(json.dumps(table).encode(), "prepare.json")
    for data in (b"", b"[" * 100_000, b"7", b"\xff"):
        with pytest.raises(ConsilienceError, match=r"prepare\.json"):
            stored_preprocessing(data, "prepare.json")
