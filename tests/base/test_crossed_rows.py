"""Rows that are made from the features of two others."""

import numpy as np

from consilience.base.crossed_rows import CrossedRows

FEATURES = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])


def test_a_crossed_row_has_each_feature_of_one_of_two_rows():
    rows = CrossedRows(FEATURES, np.array([0, 1, 0]), np.array([0, 1, 1]), np.array([0, 0, 0]), seed=1)
    coins = np.array([[True, False, True]])
    assert rows.mixed(FEATURES, coins).tolist() == [[1, 2, 3], [10, 20, 30], [10, 2, 30]]


def test_some_of_them_keep_their_coins():
    rows = CrossedRows(FEATURES, np.array([0, 0]), np.array([1, 1]), np.array([0, 1]), seed=1)
    coins = np.array([[True, True, True], [False, False, False]])
    some = rows.take(np.array([1]))
    assert len(some) == 1
    np.testing.assert_array_equal(some.mixed(FEATURES, coins), rows.mixed(FEATURES, coins)[1:])
