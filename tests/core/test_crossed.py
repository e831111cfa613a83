"""Crossed rows beside slow loops: each feature comes from one of two shared rows, and everyone makes the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from consilience.core.crossed import coins, crossed, pairs, rectangles

seeds = st.integers(0, 1000)


@given(st.integers(2, 12), st.integers(0, 30), seeds)
def test_every_pair_is_of_two_different_rows_and_the_same_again(rows, number, seed):
    a, b = pairs(rows, number, seed)
    assert a.shape == b.shape == (number,)
    assert (a != b).all() and (a >= 0).all() and (a < rows).all() and (b >= 0).all() and (b < rows).all()
    np.testing.assert_array_equal(pairs(rows, number, seed), (a, b))


@given(st.integers(2, 6), st.integers(1, 5), seeds)
def test_crossed_features_are_those_of_slow_loops(rows, features, seed):
    x = np.arange(rows * features).reshape(rows, features)
    a, b = pairs(rows, 20, seed)
    from_b = coins(20, features, seed)
    made = crossed(x, a, b, from_b)
    for n in range(20):
        for k in range(features):
            assert made[n, k] == (x[b[n], k] if from_b[n, k] else x[a[n], k])


def test_more_crossed_rows_begin_with_the_same_coins_which_are_fair():
    many = coins(4000, 5, seed=3)
    np.testing.assert_array_equal(coins(100, 5, seed=3), many[:100])
    np.testing.assert_allclose(many.mean(axis=0), 0.5, atol=0.04)


@given(st.integers(1, 20), st.integers(1, 20), seeds)
def test_what_is_cut_out_is_one_rectangle_of_a_quarter_to_three_quarters(height, width, seed):
    for inside in rectangles(8, height, width, seed):
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        assert inside.sum() == len(rows) * len(columns)
        for places, size in ((rows, height), (columns, width)):
            np.testing.assert_array_equal(places, np.arange(places[0], places[0] + len(places)))
            assert max(1, round(size / 4) - 1) <= len(places) <= max(1, round(3 * size / 4) + 1)


def test_a_rectangle_is_at_the_same_place_in_images_of_another_size():
    small, large = rectangles(200, 16, 16, seed=1), rectangles(200, 64, 64, seed=1)
    enlarged = small.repeat(4, axis=1).repeat(4, axis=2)
    assert (enlarged == large).mean() > 0.95
