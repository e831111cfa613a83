"""Polynomials are measured by their coefficients, point by point."""

import numpy as np
import pytest

from consilience.paper.fig1 import WIDE, Fig1, away, cubic, errors_of, largest_difference


def test_the_distance_between_polynomials_is_that_of_their_coefficients(three_polynomials: Fig1) -> None:
    last = three_polynomials.on_wide[20].astype(np.float64)
    coefficients = [np.polyfit(WIDE.astype(np.float64), f, 4) for f in last]
    by_hand = max(float(np.sqrt(((a - b) ** 2).sum())) for a in coefficients for b in coefficients)
    assert three_polynomials.course["parameters"][20] == pytest.approx(by_hand, rel=1e-3)


def test_polynomials_are_measured_point_by_point(three_polynomials: Fig1) -> None:
    scenario, f = three_polynomials.scenario, three_polynomials.on_shared[5]
    points = range(len(scenario.shared))
    by_hand = max(abs(float(f[i, p]) - float(f[j, p])) for i in range(3) for j in range(3) for p in points)
    assert float(largest_difference(f)) == pytest.approx(by_hand)
    errors = errors_of({"five": f}, scenario)
    share = scenario.shares["1"]
    sd = np.sqrt(np.mean([(x - share.x.mean()) ** 2 for x in share.x[:, 0]]))
    for p in points:
        assert away(scenario)[1, p] == pytest.approx(abs(scenario.shared[p, 0] - share.x.mean()) / sd, rel=1e-4)
    squares = [(float(f[1, p]) - float(scenario.shared_y[p, 0])) ** 2 for p in points]
    assert errors["five"][1] == pytest.approx(np.sqrt(sum(squares) / len(squares)), rel=1e-5)
    np.testing.assert_allclose(scenario.shared_y[:, 0], cubic(scenario.shared[:, 0]), rtol=1e-4, atol=1e-4)
