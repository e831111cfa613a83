"""Figure 6, epochs and rounds, and the appendix on lambda."""

import pytest

from consilience.paper import lines as score_lines
from consilience.paper.artefact import needs
from tests.paper.conftest import ROUNDS, made_runs
from tests.paper.loops import TWO, half_width, lines, mean, score, verdicts


def test_fig6_on_rounds_is_the_mean_over_agents_in_every_round() -> None:
    runs = made_runs(needs(["cifar100"], ["regular"], ("fedavg", "paper")), TWO)
    table = score_lines.tabulate_rounds(runs)
    assert len(table) == ROUNDS * 2
    for row in table.to_dict("records"):
        by_seed = [
            mean([score(run, a, number=row["x"]) for a in run.names])
            for one, run in runs
            if one.method == row["method"]
        ]
        assert row["mean"] == pytest.approx(mean(by_seed))
        assert row["half_width"] == pytest.approx(half_width(*by_seed))


def test_fig6_on_epochs_is_checked_step_by_step() -> None:
    said = score_lines.check_epochs(lines({"fedavg": [0.2, 0.3, 0.25], "paper": [0.1, 0.1, 0.05]}, [1, 3, 5]))
    assert said == [
        "From 1 to 3 local epochs consensus keeps its accuracy: holds (+0.000), FedAvg loses: does not hold (+0.100).",
        "From 3 to 5 local epochs consensus keeps its accuracy: does not hold (-0.050), FedAvg loses: holds (-0.050).",
    ]


def test_fig6_on_rounds_is_checked_from_the_end_of_the_warmup() -> None:
    def said(dynamic: list[float], fedavg: float) -> list[str]:
        scores = {"alone": [0.1, 0.2, 0.22, 0.25], "paper": dynamic, "fedavg": [fedavg] * 4}
        return score_lines.check_rounds(lines(scores, [1, 2, 3, 4]))

    assert said([0.1, 0.2, 0.3, 0.4], 0.45) == [
        "From round 2 to 4 consensus rises more than training alone: holds (+0.200 against +0.050).",
        "Consensus ends above FedAvg: does not hold (-0.050).",
    ]
    assert verdicts(said([0.1, 0.2, 0.2, 0.21], 0)) == [False, True]
    assert verdicts(said([0.1, 0.2, 0.22, 0.25], 0)) == [False, True], "who is always alone does not rise more"
    at_once = score_lines.check_rounds(lines({"alone": [0.1, 0.2], "paper": [0.2, 0.4], "fedavg": [0, 0]}, [1, 2]))
    assert at_once[0].startswith("From round 1 to 2"), "without a warm-up"


def test_lambda_is_checked_against_the_best() -> None:
    x = [0.1, 0.5, 2.0]
    best = "Lambda 0.5 is within 0.01 of the best: holds (it is the best)."
    assert score_lines.check_lambda(lines({"paper": [0.1, 0.4, 0.3]}, x)) == [best]
    near = "Lambda 0.5 is within 0.01 of the best: holds (the best is 2, 0.005 above it)."
    assert score_lines.check_lambda(lines({"paper": [0.1, 0.4, 0.405]}, x)) == [near]
    assert verdicts(score_lines.check_lambda(lines({"paper": [0.5, 0.4, 0.4]}, x))) == [False]
