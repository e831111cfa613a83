"""The shared rows, and those that are crossed from them."""

import numpy as np
import pytest

from consilience.methods.protocol import Record
from consilience.runtime.crossed_shared import AUTO, crossed_number, on_shared_rows, with_crossed

IMAGES = np.arange(4 * 6 * 6 * 3, dtype=np.uint8).reshape(4, 6, 6, 3)


@pytest.mark.parametrize(
    ("crossed", "backbones", "number"),
    [
        ("auto", ["lite0", "lite0"], AUTO),
        ("auto", ["lite0", ""], 0),  # an agent without a backbone
        (7, ["", ""], 7),
        (0, ["lite0", "lite0"], 0),
    ],
)
def test_rows_are_crossed_by_default_where_every_agent_has_a_backbone(crossed, backbones, number):
    assert crossed_number(crossed, IMAGES, backbones) == number


def test_a_single_row_cannot_be_crossed():
    assert crossed_number("auto", IMAGES[:1], ["lite0", "lite0"]) == 0


def test_crossed_rows_come_after_the_shared_ones_and_depend_on_the_seed():
    assert with_crossed(IMAGES, 0, 3, ["", ""]) is IMAGES
    rows, same, other = (with_crossed(IMAGES, 5, seed, ["", ""]) for seed in (3, 3, 4))
    assert len(rows) == 9
    np.testing.assert_array_equal(rows[:4], IMAGES)
    np.testing.assert_array_equal(rows, same)
    assert not np.array_equal(rows, other)


def test_records_have_predictions_for_shared_rows_alone():
    f = np.random.default_rng(0).dirichlet(np.ones(3), 9)
    record = on_shared_rows(Record({"a": f}, {}, {}), 4)
    np.testing.assert_array_equal(record.predictions["a"], f[:4])
