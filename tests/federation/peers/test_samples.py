"""Rows of a table in a question to a peer: what comes back is what was sent, and nothing else is read."""

import json

import numpy as np
import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.preprocess import table_preprocessing
from consilience.federation.peers.samples import LARGEST, QuestionError, TableFormat, sample_format

DRAW = np.random.default_rng(0)
SHARED = pd.DataFrame(
    {
        "patient_id": [f"p{number}" for number in range(40)],
        "age": np.where(DRAW.random(40) < 0.2, np.nan, DRAW.normal(60, 9, 40)),
        "pain": DRAW.choice(["none", "typical", None], 40),
        "smoker": DRAW.random(40) < 0.5,
        "children": DRAW.integers(0, 4, 40),
        "admitted": pd.to_datetime("2020-01-01") + pd.to_timedelta(DRAW.integers(0, 90, 40), unit="D"),
        "note": [f"the patient coughs on day {number} and more" for number in range(40)],
    }
)
FORM = TableFormat(SHARED)


def test_what_a_model_reads_of_rows_that_travelled_is_what_it_reads_of_the_rows():
    read = table_preprocessing(SHARED)
    back = FORM.decode(FORM.encode(SHARED[5:25]), 20)
    np.testing.assert_array_equal(read(back), read(SHARED[5:25]))
    assert list(back.columns) == list(SHARED.columns)
    assert back["patient_id"].isna().all(), "what only numbers the rows stays at home"


def test_many_rows_travel_in_parts_in_their_order():
    many = pd.concat([SHARED] * 60, ignore_index=True).assign(note="word " * 200)
    batches = list(FORM.batches(many))
    assert len(batches) > 2 and all(len(FORM.encode(batch)) <= LARGEST for batch in batches)
    back = pd.concat([FORM.decode(FORM.encode(batch), len(batch)) for batch in batches], ignore_index=True)
    np.testing.assert_array_equal(back["age"], many["age"])
    with pytest.raises(ConsilienceError, match="a row of the samples has more than the 1000000 bytes"):
        list(FORM.batches(SHARED[:1].assign(note="x" * LARGEST)))


GOOD = json.loads(FORM.encode(SHARED[:2]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 900_000,
        b"\xff\xfe",
        b"[]",
        json.dumps(GOOD | {"more": [1, 2]}).encode(),
        json.dumps({name: GOOD[name] for name in reversed(GOOD)}).encode(),
        json.dumps(GOOD | {"age": [1]}).encode(),
        json.dumps(GOOD | {"age": "ab"}).encode(),
        json.dumps(GOOD | {"age": [1, "two"]}).encode(),
        json.dumps(GOOD | {"age": [1, True]}).encode(),
        json.dumps(GOOD | {"age": [1, float("nan")]}).encode(),
        json.dumps(GOOD | {"note": ["a", ["b"]]}).encode(),
        json.dumps(GOOD | {"note": ["a", 7]}).encode(),
        json.dumps(GOOD).replace('"age": [', '"age": [1e999, ').encode(),
        json.dumps(GOOD | {"age": [1, 2.5]}).replace("2.5", "1e999").encode(),
        json.dumps(GOOD | {"age": [1, 10**400]}).encode(),
    ],
)
def test_anything_else_is_refused(data):
    FORM.decode(json.dumps(GOOD).encode(), 2)
    with pytest.raises(QuestionError):
        FORM.decode(data, 2)


def test_the_number_of_rows_and_the_range_of_numbers_are_held():
    with pytest.raises(QuestionError, match="wrong length"):
        FORM.decode(json.dumps(GOOD).encode(), 0)
    with pytest.raises(QuestionError, match="columns of the wrong length"):
        FORM.decode(json.dumps(GOOD).encode(), 3)
    assert FORM.in_range(SHARED) and not FORM.in_range(SHARED.assign(age=1e30))
    with pytest.raises(ConsilienceError, match="'age' of the samples holds 'old'; in the shared data it has numbers"):
        FORM.encode(SHARED.assign(age="old"))
    with pytest.raises(ConsilienceError, match="for samples of numbers, or rows of a table"):
        sample_format(["a text"])
