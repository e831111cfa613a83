"""Weights of the disagreement."""

from consilience.paper import lam
from tests.paper.loops import lines, verdicts


def test_lambda_is_checked_against_the_best() -> None:
    x = [0.1, 0.5, 2.0]
    best = "Lambda 0.5 is within 0.01 of the best: holds (it is the best)."
    assert lam.check(lines({"paper": [0.1, 0.4, 0.3]}, x)) == [best]
    near = "Lambda 0.5 is within 0.01 of the best: holds (the best is 2, 0.005 above it)."
    assert lam.check(lines({"paper": [0.1, 0.4, 0.405]}, x)) == [near]
    assert verdicts(lam.check(lines({"paper": [0.5, 0.4, 0.4]}, x))) == [False]
