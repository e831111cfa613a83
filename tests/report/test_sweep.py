"""The report of a sweep: the best setting, a heat map, curves."""

import pytest

from consilience.experiments.compare import Comparison, choose
from consilience.report.sweep import drawings, sentences
from tests.experiments.test_axes import LAM, VALUES, made


def test_the_best_setting_is_chosen_on_the_first_seeds_and_measured_on_the_others():
    """For alpha = 0.5 the choice is wrong for the other seeds, which shows that it was not made on them."""
    first, second = choose(made(VALUES))
    assert (first.given, first.setting) == ({"alpha": 0.5}, {"lam": 0.1})
    assert (first.tuning, first.held_out) == ((0, 1), (2, 3))
    assert first.on_tuning.mean == pytest.approx(0.85 - 0.05)
    assert first.on_held_out.mean == pytest.approx(0.5 - 0.05)
    assert (second.given, second.setting) == ({"alpha": 5}, {"lam": 1})
    assert "lam=0.1 is the best on seeds 0, 1 (0.800" in sentences(made(VALUES))[0]
    assert "on seeds 2, 3, which had no part in the choice, it reaches 0.450" in sentences(made(VALUES))[0]


def test_one_seed_chooses_nothing():
    assert choose(made(VALUES, seeds=1)) == []
    assert "No setting was chosen" in sentences(made(VALUES, seeds=1))[0]


def test_a_heat_map_has_a_cell_for_every_pair_and_curves_a_point_for_every_value():
    (first, chosen), (title, image) = drawings(made(VALUES)).items()
    assert (first, title) == ("Score against alpha, each with its best lam", "paper")
    assert chosen.count("<circle") == 2 and "0.450" in chosen, "of the seeds that chose nothing"
    assert image.count("<rect") == 4
    for mean in ("0.625", "0.550", "0.800", "0.700"):
        assert f">{mean}<" in image
    found = made({key: values for key, values in VALUES.items() if key[1] == 5})
    one = Comparison(found.table, found.scores, {"paper": "paper"}, (), [LAM])
    [(title, image)] = drawings(one).items()
    assert title == "Score against lam"
    assert image.count("<circle") == 2
