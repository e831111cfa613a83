"""Components of drawings."""

import re

import pytest

from consilience.experiments.compare import Estimate
from consilience.report import drawing

PLOT = drawing.Plot(left=10, right=110, top=5, bottom=55, first=0, last=4, low=0.5, high=1.0)


def test_values_at_the_edges_are_at_the_edges_of_the_plot():
    assert [PLOT.x(0), PLOT.x(2), PLOT.x(4)] == [10, 60, 110]
    assert [PLOT.y(0.5), PLOT.y(0.75), PLOT.y(1.0)] == [55, 30, 5]


def test_bars_of_intervals_end_at_the_edge_of_the_plot():
    bar, dot = PLOT.estimates(0, "<b>", [(20, "x", Estimate(0.9, 0.5))])
    low, high = (float(y) for y in re.findall(r"20\.0 ([\d.]+)", bar))
    assert (low, high) == (5.0, 55.0)
    assert f'cy="{PLOT.y(0.9):.1f}"' in dot and "&lt;b&gt;" in dot


@pytest.mark.parametrize(("low", "high", "most"), [(0.0, 1.0, 5), (-3e-4, 2e-4, 4), (120, 970, 7), (1, 1.0001, 3)])
def test_ticks_are_few_even_and_within(low, high, most):
    ticks = drawing.round_ticks(low, high, most)
    assert 1 <= len(ticks) <= most + 1
    assert all(low - 1e-12 <= tick <= high + 1e-12 for tick in ticks)
    assert len(set(drawing.tick_texts(ticks))) == len(ticks)


def test_only_drawings_that_fit_a_phone_are_scaled_to_it():
    assert 'class="narrow"' in drawing.svg(drawing.NARROW, 10, "d", [])
    assert 'class="narrow"' not in drawing.svg(drawing.NARROW + 1, 10, "d", [])
