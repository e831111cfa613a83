"""Corrections for frequent classes."""

import math

import numpy as np
import pytest

from consilience.core.class_prior import class_offsets, match_class_prior


def test_offsets_with_plain_loops():
    counts, classes = [5, 0, 3], 4
    total = sum((counts[k] if k < len(counts) else 0) + 1 for k in range(classes))
    expected = [math.log(classes * ((counts[c] if c < len(counts) else 0) + 1) / total) for c in range(classes)]
    np.testing.assert_allclose(class_offsets(counts, classes), expected, rtol=1e-12)


def test_equal_counts_change_nothing():
    np.testing.assert_allclose(class_offsets([7, 7, 7], 3), 0, atol=1e-12)


@pytest.mark.parametrize("times", [1, 3])
def test_alignment_with_plain_loops(times):
    draw = np.random.default_rng(0)
    psi, prior = draw.dirichlet([0.3, 1.0, 2.0], size=20), [0.2, 0.3, 0.5]
    expected = psi.tolist()
    for _ in range(times):
        means = [sum(row[c] for row in expected) / len(expected) for c in range(3)]
        expected = [[row[c] * prior[c] / means[c] for c in range(3)] for row in expected]
        expected = [[value / sum(row) for value in row] for row in expected]
    np.testing.assert_allclose(match_class_prior(psi, np.array(prior), times), expected, rtol=1e-12)


def test_alignment_nears_the_prior_keeps_rows_and_leaves_its_argument():
    psi = np.random.default_rng(1).dirichlet([4.0, 1.0, 0.5], size=300).astype(np.float32)
    before, prior = psi.copy(), np.full(3, 1 / 3)
    found = match_class_prior(psi, prior)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(psi, before)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    assert abs(found.mean(axis=0) - prior).max() < abs(psi.mean(axis=0) - prior).max() / 5


def test_a_class_that_nobody_names_stays_finite():
    assert np.isfinite(match_class_prior(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5]))).all()
