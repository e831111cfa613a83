"""Tables with words, gaps and dates as numbers."""

import numpy as np
import pandas as pd
import pytest

from consilience.data.preprocess import MOST_WORDS, table_preprocessing
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


def test_gaps_words_categories_dates_and_flags_become_finite_numbers():
    read = table_preprocessing(SHARED)
    x = read(SHARED)
    assert x.dtype == np.float32
    assert np.isfinite(x).all()
    # age, seen, smoker, unknown; where age, seen and unknown were missing; three words of pain; two kinds
    assert x.shape == (4, 4 + 3 + 3 + 2)
    np.testing.assert_allclose(x[:, :3].mean(axis=0), 0, atol=1e-6)
    filled = (np.array([50, 60, 60, 70]) - 60) / np.std([50, 60, 60, 70])
    np.testing.assert_allclose(x[:, 0], filled, rtol=1e-6)
    np.testing.assert_array_equal(x[:, 7:10].sum(axis=1), 1)


def test_other_rows_are_read_as_the_shared_ones_were():
    read = table_preprocessing(SHARED)
    other = pd.DataFrame(
        {
            "unknown": [3.0],
            "smoker": [True],
            "seen": ["1970-01-02"],
            "kind": ["new"],
            "pain": [None],
            "age": [50],
            "more": ["ignored"],
        }
    )
    x = read(other)
    assert x.shape == (1, 12)
    np.testing.assert_allclose(x[0, :2], read(SHARED)[0, :2], rtol=1e-6)
    assert x[0, 10:].sum() == 0, "a word that the shared data do not have"
    with pytest.raises(ConsilienceError, match="the table has no column 'age'"):
        read(other.drop(columns="age"))
    with pytest.raises(ConsilienceError, match="cannot be read as the shared data are"):
        read(other.assign(age="old"))


def test_a_column_with_many_words_does_not_grow_without_end():
    table = pd.DataFrame({"name": [f"n{number}" for number in range(200)]})
    assert table_preprocessing(table)(table).shape == (200, MOST_WORDS)
