"""Figure 1: polynomials agree on the shared data, and keep their own parameters."""

import numpy as np

from consilience.paper.fig1 import Fig1


def test_agents_agree_on_the_shared_data_up_to_the_noise(three_polynomials: Fig1) -> None:
    apart = three_polynomials.course.set_index("round")["on_shared"]
    assert apart[0] > 10
    assert apart[0] > apart[5] > apart[20]
    assert apart[20:].max() < 1


def test_agreement_on_the_shared_data_leaves_the_parameters_different(three_polynomials: Fig1) -> None:
    course = three_polynomials.course.set_index("round")
    assert 0.01 < course["parameters"][20] < course["parameters"][0]
    assert course["on_wide"][20] > 5 * course["on_shared"][20]


def test_the_differences_level_off_because_noisy_labels_cannot_be_fitted(three_polynomials: Fig1) -> None:
    apart = three_polynomials.course["on_shared"].to_numpy()
    assert np.ptp(apart[45:]) < 0.01 * apart[50]
    assert apart[50] > 0.05


def test_every_polynomial_comes_closer_to_the_truth(three_polynomials: Fig1) -> None:
    errors = three_polynomials.errors
    assert (errors["together"] < errors["alone"]).all()
    assert errors["together"].max() < 0.5
