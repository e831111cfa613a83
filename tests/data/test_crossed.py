"""Crossed rows of every kind of data: columns, rectangles, sentences; and sentences on data that cannot be crossed."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from consilience import ConsilienceError
from consilience.base.rows import count, fingerprint
from consilience.core.crossed import pairs
from consilience.data.crossed import crossed_in_features, crossed_rows, why_not

TABLE = pd.DataFrame(
    {
        "age": [31, 44, 52, 60],
        "weight": [70.5, np.nan, 81.0, 64.25],
        "sex": ["f", "m", "f", "f"],
        "since": pd.to_datetime(["2020-01-01", "2021-05-06", "2019-02-03", "2018-07-08"]),
        "ward": pd.Categorical(["a", "b", "a", "c"]),
    }
)
TEXTS = ["One. Two. Three.", "Eins! Zwei?", "uno due tre", "un deux"]


@given(st.integers(1, 40), st.integers(0, 100))
@settings(max_examples=20)
def test_a_table_is_crossed_by_column_and_types_are_kept(number, seed):
    made = crossed_rows(TABLE, number, seed)
    assert made.dtypes.to_dict() == TABLE.dtypes.to_dict() and len(made) == number
    a, b = pairs(len(TABLE), number, seed)
    for row in range(number):
        for name in TABLE.columns:
            two = [TABLE[name].iloc[a[row]], TABLE[name].iloc[b[row]]]
            value = made[name].iloc[row]
            assert value in two or (pd.isna(value) and pd.isna(two).any())


@pytest.mark.parametrize("shape", [(3, 8, 6), (8, 6, 3), (8, 6)])
def test_of_an_image_a_rectangle_comes_from_the_other_in_all_channels(shape):
    x = np.stack([np.full(shape, row, np.uint8) for row in range(5)])
    made = crossed_rows(x, 50, seed=0)
    a, b = pairs(5, 50, 0)
    assert made.dtype == np.uint8 and made.shape == (50, *shape)
    for row, image in enumerate(made):
        assert set(np.unique(image)) == {a[row], b[row]}
        plane = image if len(shape) == 2 else image[0] if shape[0] == 3 else image[..., 0]
        channels = (
            [image] if len(shape) == 2 else [np.moveaxis(image, 0 if shape[0] == 3 else 2, 0)[c] for c in range(3)]
        )
        assert all((channel == plane).all() for channel in channels)


@given(st.integers(1, 30), st.integers(0, 50))
@settings(max_examples=20)
def test_every_sentence_of_a_crossed_text_is_from_one_of_two(number, seed):
    made = crossed_rows(TEXTS, number, seed)
    a, b = pairs(len(TEXTS), number, seed)
    parts = {0: ["One.", "Two.", "Three."], 1: ["Eins!", "Zwei?"]}
    parts |= {2: ["uno due tre", "uno", "due tre"], 3: ["un deux", "un", "deux"]}
    for row, text in enumerate(made):
        rest = text
        for sentence in sorted([*parts[a[row]], *parts[b[row]]], key=len, reverse=True):
            rest = rest.replace(sentence, "")
        assert text and not rest.strip()


def test_texts_are_crossed_in_lists_arrays_and_the_one_column_of_a_table():
    as_list = crossed_rows(TEXTS, 9, seed=4)
    assert crossed_rows(np.array(TEXTS, dtype=object), 9, seed=4).tolist() == as_list
    # a column of texts is one with many words, so that it is not taken for a category
    long = [f"{text} {' '.join(f'word{row}{k}' for k in range(20))}." for row, text in enumerate(TEXTS * 8)]
    table = pd.DataFrame({"review": long})
    assert crossed_rows(table, 9, seed=4)["review"].tolist() == crossed_rows(long, 9, seed=4)


def test_a_table_and_the_array_of_its_numbers_are_crossed_alike():
    x = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    table = pd.DataFrame(x, columns=list("abcd"))
    made = crossed_rows(x, 30, seed=2)
    np.testing.assert_array_equal(crossed_rows(table, 30, seed=2).to_numpy(), made)
    np.testing.assert_array_equal(crossed_rows(torch.from_numpy(x), 30, seed=2).numpy(), made)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.zeros((1, 4)), "fewer than two"),
        (np.zeros((5, 1)), r"a row of the shape \(1,\) is neither an image nor several numbers"),
        (np.zeros(5), "neither an image nor several numbers"),
        (sparse.csr_matrix(np.eye(4)), "they are sparse"),
        ({"tokens": np.zeros((3, 4))}, "they are a dict"),
        (pd.DataFrame({"age": [1.0, 2.5, 3.5]}), "their only column that is used, 'age', is no text"),
    ],
)
def test_what_cannot_be_crossed_is_said_with_what_to_do(rows, says):
    assert why_not(rows)
    with pytest.raises(ConsilienceError, match=f"the shared data cannot be crossed: .*{says}.*Set crossed=0"):
        crossed_rows(rows, 3, seed=0)


def test_rows_crossed_in_features_are_counted_taken_and_told_apart():
    rows = crossed_in_features(np.arange(12.0).reshape(4, 3), 6, seed=1)
    assert count(rows) == 10
    features = np.arange(20.0).reshape(4, 5)
    from_b = np.random.default_rng(0).random((6, 5)) < 0.5
    made = rows.mixed(features, from_b)
    np.testing.assert_array_equal(made[:4], features)
    a, b = pairs(4, 6, 1)
    for n in range(6):
        np.testing.assert_array_equal(made[4 + n], [features[b[n] if from_b[n, k] else a[n], k] for k in range(5)])
    some = rows.take(np.array([9, 0, 5]))
    np.testing.assert_array_equal(some.mixed(features, from_b), made[[9, 0, 5]])
    again = crossed_in_features(np.arange(12.0).reshape(4, 3), 6, seed=1)
    assert fingerprint(rows) == fingerprint(again) != fingerprint(crossed_in_features(rows.rows, 6, seed=2))
