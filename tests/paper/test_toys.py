"""The paper's toy experiments: what it says of them holds, and where it does not, the numbers say so."""

import numpy as np
import pandas as pd
import pytest

from consilience.paper import fig1, fig2, figA1
from consilience.paper.fig1 import Fig1
from consilience.paper.fig2 import AXIS, CENTRES, Fig2, gaussian_classes
from consilience.paper.figA1 import FigA1
from consilience.paper.polynomials import ROUNDS, WIDE, away, cubic, errors_of, largest_difference
from consilience.paper.toys import Claim, judged, told


def holding(claims: list[Claim]) -> set[str]:
    return {claim.name for claim in claims if claim.holds}


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


def test_the_distance_between_polynomials_is_that_of_their_coefficients(three_polynomials: Fig1) -> None:
    last = three_polynomials.on_wide[20].astype(np.float64)
    coefficients = [np.polyfit(WIDE.astype(np.float64), f, 4) for f in last]
    by_hand = max(float(np.sqrt(((a - b) ** 2).sum())) for a in coefficients for b in coefficients)
    assert three_polynomials.course["parameters"][20] == pytest.approx(by_hand, rel=1e-3)


def test_strong_agents_are_better_with_dynamic_than_with_naive_trust(weak_among_strong: FigA1) -> None:
    strong, weak = weak_among_strong.errors[:3], weak_among_strong.errors.iloc[3]
    assert (strong["paper"] < strong["naive"]).all()
    assert strong["paper"].max() < 1 < strong["naive"].min()
    assert weak["paper"] > 2 * strong["paper"].max()


def test_trust_in_the_weak_agent_falls_from_a_peak_and_never_reaches_an_equal_share(weak_among_strong: FigA1) -> None:
    trust = weak_among_strong.trust_in_weak
    assert len(trust) == ROUNDS
    assert trust.max() < 1 / 4
    assert trust[-1] < trust[0]
    assert trust[-1] < trust.max()


def test_good_agents_are_better_with_dynamic_than_with_naive_trust_and_alone(four_networks: Fig2) -> None:
    mean = four_networks.accuracies[:3].mean()
    assert mean["paper"] > mean["naive"] > mean["alone"]
    assert {"dynamic beats naive", "dynamic beats alone"} <= holding(four_networks.claims)


def test_flipped_labels_are_trusted_least_in_every_round(four_networks: Fig2) -> None:
    assert (four_networks.received.argmin(axis=1) == 3).all()
    assert four_networks.accuracies["paper"][3] < 0.2


def test_good_agents_put_the_mean_of_each_class_into_its_region(four_networks: Fig2) -> None:
    for label, (x, y) in enumerate(CENTRES):
        place = np.abs(AXIS - y).argmin(), np.abs(AXIS - x).argmin()
        for method in ("alone", "naive", "paper"):
            assert [int(four_networks.regions[method][(agent, *place)]) for agent in range(3)] == [label] * 3


def test_labels_are_flipped_as_the_paper_says() -> None:
    scenario = gaussian_classes(seed=3)
    truth = np.repeat(np.arange(4), 25)
    assert [int((share.y != truth).sum()) for share in scenario.shares.values()] == [10, 10, 10, 100]
    assert np.bincount(scenario.shared_y).tolist() == [50] * 4


def test_every_expectation_is_judged(three_polynomials: Fig1, weak_among_strong: FigA1, four_networks: Fig2) -> None:
    for module, data in ((fig1, three_polynomials), (figA1, weak_among_strong), (fig2, four_networks)):
        assert {claim.name: claim.expectation for claim in data.claims} == module.EXPECTATIONS
        assert all(claim.measured for claim in data.claims)
    assert holding(three_polynomials.claims) == set(fig1.EXPECTATIONS)
    assert holding(weak_among_strong.claims) == set(figA1.EXPECTATIONS) - {"strong agree"}


def test_the_same_seed_gives_the_same_numbers(three_polynomials: Fig1) -> None:
    pd.testing.assert_frame_equal(fig1.compute(seed=0).course, three_polynomials.course)
    first, again = fig2.compute(seed=5, rounds=1), fig2.compute(seed=5, rounds=1)
    pd.testing.assert_frame_equal(first.accuracies, again.accuracies)
    np.testing.assert_array_equal(first.regions["paper"], again.regions["paper"])


def test_another_seed_gives_other_data() -> None:
    assert gaussian_classes(0).fingerprint() == gaussian_classes(0).fingerprint() != gaussian_classes(1).fingerprint()


def test_a_claim_is_judged_by_what_was_found() -> None:
    found = {"a": (np.bool_(True), "1"), "b": (False, "2")}
    assert judged({"b": "B.", "a": "A."}, found) == [Claim("b", "B.", False, "2"), Claim("a", "A.", True, "1")]
    assert told(in_all=[1, 2.34567], last=3) == "in all 1 2.346, last 3"


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
