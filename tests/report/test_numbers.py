"""How numbers are written."""

import math

import pytest

from consilience.report.numbers import bounds, many, number, rounded, size, spread


def test_what_is_not_known_is_a_dash_and_none_in_data():
    nan = math.nan
    assert number(nan) == bounds(nan, 1.0) == many(nan) == "-"
    assert rounded([0.123456, nan, math.inf]) == [0.1235, None, None]


def test_the_worst_is_the_largest_where_lower_is_better():
    values = [1.0, 2.0, 3.0, 10.0]
    mean, worst, *_, best = spread(values, up=False)
    assert (mean, worst, best) == (4.0, 10.0, 1.0)
    assert spread(values, up=True)[1::4] == [1.0, 10.0]


@pytest.mark.parametrize(("number", "text"), [(999, "999 B"), (1000, "1.0 kB"), (123_456, "123 kB"), (5e12, "5000 GB")])
def test_bytes_have_three_digits_or_fewer_before_the_unit(number, text):
    assert size(number) == text
