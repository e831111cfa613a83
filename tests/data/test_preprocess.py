"""Tables with words, texts, gaps and dates as numbers."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from consilience.data.columns import MOST_CATEGORIES, Column, read_columns
from consilience.data.preprocess import TablePreprocessing, table_preprocessing
from consilience.errors import ConsilienceError

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
    with pytest.raises(
        ConsilienceError, match=r"the table has no column 'age'. It needs age, pain, kind, seen, smoker"
    ):
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
    words = list(read.pipeline.named_transformers_["text 0"].get_feature_names_out())
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


def test_preprocessing_is_stored_without_code_of_its_own():
    skops = pytest.importorskip("skops.io")
    texts = [f"some longer text of number {number}" for number in range(4)]
    shared = SHARED.assign(note=texts)
    columns = read_columns(shared, {"note": "text"})
    read = table_preprocessing(shared, columns)
    data = skops.dumps(read.pipeline)
    assert skops.get_untrusted_types(data=data) == ["numpy.dtype"]
    stored = json.loads(json.dumps([asdict(column) for column in read.columns]))
    again = TablePreprocessing(tuple(Column(**column) for column in stored), skops.loads(data, trusted=["numpy.dtype"]))
    np.testing.assert_array_equal(again(shared), read(shared))
