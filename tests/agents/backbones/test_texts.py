"""Texts of any kind as a list."""

import numpy as np
import pandas as pd
import pytest

from consilience.agents.backbones.texts import texts_of
from consilience.base.errors import ConsilienceError

TEXTS = ["good", "bad", "fine"]


@pytest.mark.parametrize(
    "rows",
    [
        TEXTS,
        np.array(TEXTS),
        pd.Series(TEXTS),
        pd.DataFrame({"stars": [5, 1, 3], "review": TEXTS}),
        {"review": TEXTS, "stars": np.array([5, 1, 3])},
    ],
    ids=["list", "array", "series", "table", "mapping"],
)
def test_the_one_column_of_texts_is_read(rows):
    assert texts_of("agent 'a'", rows) == TEXTS


def test_a_missing_text_is_empty():
    assert texts_of("agent 'a'", pd.Series(["good", None])) == ["good", ""]


def test_two_columns_of_texts_are_refused_by_name():
    table = pd.DataFrame({"title": TEXTS, "review": TEXTS})
    with pytest.raises(ConsilienceError, match=r"agent 'a': .* 2 columns title, review hold such"):
        texts_of("agent 'a'", table)


def test_images_are_refused():
    with pytest.raises(ConsilienceError, match=r"row 0 is an array of the shape \(8, 8, 3\)"):
        texts_of("agent 'a'", np.zeros((2, 8, 8, 3)))
