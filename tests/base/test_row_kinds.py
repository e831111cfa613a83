"""Every kind of rows can be counted, taken, joined and told from others."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from consilience import ConsilienceError
from consilience.base.rows import as_rows, count, fingerprint, join, take
from tests.base.test_rows import TABLE, Pairs, hugging_face


def kinds():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    return {
        "array": lambda: x.copy(),
        "bytes": lambda: x.astype(np.uint8),
        "flags": lambda: np.array([[0, 1], [1, 0], [1, 1], [0, 0]], dtype=bool),
        "words": lambda: np.array([["a"], ["bc"], ["d"], ["a"]], dtype=object),
        "table": lambda: TABLE.copy(),
        "texts": lambda: ["one", "two", "three", "one"],
        "sparse": lambda: sparse.csr_matrix(x),
        "tensor": lambda: torch.from_numpy(x.copy()),
        "torch dataset": lambda: Pairs(x, np.array([0, 1, 1, 0])),
        "hugging face": lambda: hugging_face({"text": ["a", "b", "c", "a"], "tokens": [[1, 2], [3], [4, 5], [1, 2]]}),
        "dict": lambda: {"ids": x.astype(np.int64), "mask": torch.ones(4, 3)},
    }


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_is_counted_taken_joined_and_told_apart(kind):
    make = kinds()[kind]
    rows = make()
    assert count(rows) == 4
    first, last = take(rows, slice(0, 2)), take(rows, np.array([2, 3]))
    assert count(first) == count(last) == 2
    assert count(take(rows, np.array([1, 1, 0]))) == 3
    whole = join(first, last)
    assert type(whole) is type(take(rows, [0])) or kind == "torch dataset"
    assert fingerprint(make()) == fingerprint(rows), "the same rows, the same mark"
    assert fingerprint(take(rows, [1, 0, 2, 3])) != fingerprint(take(rows, [0, 1, 2, 3])), "the order counts"
    assert fingerprint(take(whole, [0, 1, 2, 3])) == fingerprint(take(rows, [0, 1, 2, 3]))
    assert fingerprint(take(rows, [0, 1])) != fingerprint(take(rows, [0, 2]))


def test_a_table_stays_as_it_is_and_knows_all_categories():
    taken = take(TABLE, [3, 0])
    assert taken["kind"].dtype == TABLE["kind"].dtype
    assert list(taken["age"]) == [39, 50]
    other = TABLE.assign(kind=pd.Categorical(["x", "a", "a", "x"]))[["pain", "kind", "age", "seen", "pressure"]]
    both = join(TABLE, other)
    assert list(both.columns) == list(TABLE.columns)
    assert set(both["kind"].cat.categories) == {"a", "b", "c", "x"}
    assert both["kind"].tolist() == ["a", "b", "a", "c", "x", "a", "a", "x"]
    assert list(TABLE["kind"].cat.categories) == ["a", "b", "c"], "what was given is not changed"
    with pytest.raises(ConsilienceError, match="no column 'age'"):
        join(TABLE, TABLE.drop(columns="age"))


def test_changes_that_a_mark_must_show():
    assert fingerprint(["ab", "c"]) != fingerprint(["a", "bc"])
    assert fingerprint(TABLE) != fingerprint(TABLE.rename(columns={"age": "years"}))
    assert fingerprint(TABLE) != fingerprint(TABLE.assign(pain=["none", "", "typical", "none"]))
    assert fingerprint(np.zeros(2)) != fingerprint(np.zeros(2, np.float32))
    assert fingerprint({"a": np.zeros(2)}) != fingerprint({"b": np.zeros(2)})


def test_what_holds_no_rows_is_refused_in_a_sentence():
    for wrong in (7, object(), "text", None):
        with pytest.raises(ConsilienceError, match=r"holds no rows\. Give a NumPy array"):
            as_rows(wrong)
    with pytest.raises(ConsilienceError, match="different lengths"):
        count({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(ConsilienceError, match=r"one part of the rows is a list, another a ndarray"):
        join(["a"], np.zeros(1))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([])

    with pytest.raises(ConsilienceError, match="cannot be counted"):
        as_rows(Stream())
