"""The paper's toy experiments: what it says of them holds, and where it does not, the numbers say so."""

import numpy as np
import pandas as pd

from consilience.paper import fig1, fig2, figA1
from consilience.paper.fig1 import Fig1
from consilience.paper.fig2 import Fig2
from consilience.paper.figA1 import FigA1
from consilience.paper.toys import Claim, judged, told


def holding(claims: list[Claim]) -> set[str]:
    return {claim.name for claim in claims if claim.holds}


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


def test_a_claim_is_judged_by_what_was_found() -> None:
    found = {"a": (np.bool_(True), "1"), "b": (False, "2")}
    assert judged({"b": "B.", "a": "A."}, found) == [Claim("b", "B.", False, "2"), Claim("a", "A.", True, "1")]
    assert told(in_all=[1, 2.34567], last=3) == "in all 1 2.346, last 3"
