"""Every table of the paper is what plain loops over its runs give, and every check says what its table says."""

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from consilience.core.consensus import lower_importance
from consilience.paper import communication, fig4, fig5, fig6, lam, schedule, table1, theory
from consilience.paper.artefact import FromRuns, needs, verdict
from consilience.paper.artefacts import artefact
from consilience.paper.measures import intervals, marked_agents, mean_score, score_of
from consilience.paper.scales import CONSENSUS, METHODS
from consilience.runtime.run import Run
from tests.paper.conftest import CLASSES, PARAMETERS, ROUNDS, SHARED, made_runs

TWO = (0, 1)
STUDENT = 12.706204736432095
"""The 97.5 % quantile of Student's t with one degree of freedom, that of two seeds."""


def score(run: Run, agent: str, column: str = "accuracy_shared", number: int = ROUNDS) -> float:
    """The one entry of the metrics that is meant."""
    for row in run.metrics.to_dict("records"):
        if row["round"] == number and row["agent"] == agent:
            return float(row[column])
    raise KeyError(agent)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def half_width(a: float, b: float) -> float:
    """Of the 95 % interval from two seeds: t * s / sqrt(2), where s is |a - b| / sqrt(2)."""
    return STUDENT * abs(a - b) / 2


def test_the_schedule_table_has_the_three_places_and_the_samples() -> None:
    runs = made_runs(artefact("schedule").needs, TWO)
    table = schedule.tabulate(runs)
    assert len(table) == 2 * len(schedule.RUN)
    for row in table.to_dict("records"):
        for place in ("shared", "target", "own"):
            by_seed = []
            for one, run in runs:
                variant = one.folder.parts[-3].removeprefix("cifar10-")
                if (variant, one.method) == (row["labels"], row["method"]):
                    good = [a for a in run.names if variant == "regular" or a not in ("2", "9")]
                    by_seed.append(mean([score(run, a, f"accuracy_{place}") for a in good]))
            assert row[place] == pytest.approx(mean(by_seed))
            if place == "target":
                assert row["half_width"] == pytest.approx(half_width(*by_seed))
        assert row["trained"] == 7 * 10 * ROUNDS


def test_the_schedule_is_judged_against_the_best_server_method() -> None:
    ours = dict.fromkeys(schedule.RUN, 0.3) | {"fedavg": 0.5, "scaffold": 0.55, "paper": 0.54, "consensus": 0.6}
    table = pd.DataFrame([("cifar10", "regular", m, v, v, v) for m, v in ours.items()])
    table.columns = ["dataset", "labels", "method", "shared", "target", "own"]
    said = schedule.check(table)
    assert len(said) == 6
    assert "target: paper beats every server method that was run: does not hold (-0.010)." in said[2]
    assert "own: consensus beats every server method that was run: holds (+0.050)." in said[5]


@pytest.mark.parametrize("dataset", ["cifar10", "fed-isic2019"])
def test_table1_is_the_mean_over_the_agents_with_good_labels(dataset: str) -> None:
    runs = made_runs(needs([dataset], ["regular", "low-quality"], METHODS), TWO)
    column = {"cifar10": "accuracy_shared", "fed-isic2019": "balanced_accuracy_shared"}[dataset]
    bad = {"cifar10": ("2", "9"), "fed-isic2019": ("1", "2")}[dataset]
    table = table1.tabulate(runs)
    assert len(table) == 2 * len(METHODS)
    for row in table.to_dict("records"):
        by_seed = []
        for one, run in runs:
            variant = one.folder.parts[-3].removeprefix(f"{dataset}-")
            if (variant, one.method) == (row["labels"], row["method"]):
                good = [a for a in run.names if variant == "regular" or a not in bad]
                by_seed.append(mean([score(run, a, column) for a in good]))
        assert row["ours"] == pytest.approx(mean(by_seed))
        assert row["half_width"] == pytest.approx(half_width(*by_seed))
        assert (row["dataset"], row["seeds"]) == (dataset, 2)
        assert row["paper"] == table1.PRINTED[dataset, row["labels"]][METHODS.index(row["method"])]


def test_one_seed_has_no_interval() -> None:
    table = table1.tabulate(made_runs(needs(["cifar10"], ["regular"], ("alone",))))
    assert table["half_width"].isna().all()
    assert intervals({"a": [0.5], "b": [0.1, 0.3]})["b"] == pytest.approx((0.2, half_width(0.1, 0.3)))


def test_fed_isic_is_measured_by_balanced_accuracy() -> None:
    ((_, run),) = made_runs([("fed-isic2019", "low-quality", "paper")])
    assert score_of("fed-isic2019") == "balanced_accuracy_shared"
    assert score_of("cifar100") == "accuracy_shared"
    good = [score(run, a, "balanced_accuracy_shared") for a in run.names if a not in ("1", "2")]
    assert mean_score(run, "fed-isic2019") == pytest.approx(mean(good))


def test_marked_agents_have_wrong_labels_or_the_weaker_of_two_models() -> None:
    variants = ("regular", "low-quality", "two-models")
    (_, regular), (_, wrong), (_, weak) = made_runs([("cifar10", variant, "paper") for variant in variants])
    assert [marked_agents(run) for run in (regular, wrong, weak)] == [[], [2, 9], [5, 6, 7, 8, 9]]


def test_fig5_is_the_mean_over_strong_and_over_weak_agents() -> None:
    runs = made_runs(needs(["cifar10", "fed-isic2019"], ["two-models"], ("alone", "paper")), TWO)
    table = fig5.tabulate(runs)
    assert len(table) == 8
    for row in table.to_dict("records"):
        column = "balanced_accuracy_shared" if row["dataset"] == "fed-isic2019" else "accuracy_shared"
        by_seed = []
        for one, run in runs:
            if (one.settings.data.dataset, one.method) == (row["dataset"], row["method"]):
                half = len(run.names) // 2
                members = run.names[:half] if row["group"] == "strong" else run.names[half:]
                by_seed.append(mean([score(run, a, column) for a in members]))
        assert row["mean"] == pytest.approx(mean(by_seed))
        assert row["half_width"] == pytest.approx(half_width(*by_seed))


@pytest.mark.parametrize(
    ("one", "values"),
    [("fig6-epochs", {"epochs-1": 1, "epochs-3": 3, "epochs-5": 5}), ("lambda", {"lam-0.1": 0.1, "lam-2": 2})],
)
def test_scores_stand_against_the_setting_that_was_changed(one: str, values: dict[str, float]) -> None:
    dataset = {"fig6-epochs": "cifar100", "lambda": "cifar10"}[one]
    runs = made_runs([(dataset, variant, "paper") for variant in reversed(values)], TWO)
    table = artefact(one).tabulate(runs)
    assert table["x"].tolist() == list(values.values()), "in order"
    for x, row in zip(values.values(), table.to_dict("records"), strict=True):
        by_seed = []
        for done, run in runs:
            changed = done.settings.training.epochs if dataset == "cifar100" else done.settings.method.lam
            if changed == x:
                by_seed.append(mean([score(run, a) for a in run.names]))
        assert row["mean"] == pytest.approx(mean(by_seed))
        assert row["half_width"] == pytest.approx(half_width(*by_seed))


def test_fig6_on_rounds_is_the_mean_over_agents_in_every_round() -> None:
    runs = made_runs(needs(["cifar100"], ["regular"], ("fedavg", "paper")), TWO)
    table = fig6.tabulate_rounds(runs)
    assert len(table) == ROUNDS * 2
    for row in table.to_dict("records"):
        by_seed = [
            mean([score(run, a, number=row["x"]) for a in run.names])
            for one, run in runs
            if one.method == row["method"]
        ]
        assert row["mean"] == pytest.approx(mean(by_seed))
        assert row["half_width"] == pytest.approx(half_width(*by_seed))


def test_communication_is_that_of_the_last_round_beside_the_formula() -> None:
    runs = made_runs(needs(["cifar10"], ["regular"], METHODS))
    silent = runs[METHODS.index("alone")][1].metrics
    silent["bytes_sent"] = 0
    table = communication.tabulate(runs).set_index("method")
    agents = 10
    for method in METHODS:
        assert table["bytes_per_round"][method] == (0 if method == "alone" else 1000 * ROUNDS * agents)
    predictions = sum(4 * SHARED * CLASSES for i, j in product(range(agents), repeat=2) if i != j)
    weights = sum(4 * PARAMETERS for _ in range(agents) for _ in ("up", "down"))
    expected = dict.fromkeys(METHODS, weights) | dict.fromkeys(CONSENSUS, predictions)
    assert table["formula_bytes"].to_dict() == expected | {"scaffold": 2 * weights, "alone": 0}
    assert table["formula"]["scaffold"] == "16 N |params|"


def test_fig4_is_the_trust_received_from_peers() -> None:
    runs = made_runs([("cifar10", "low-quality", "paper"), ("cifar100", "two-models", "paper")])
    table = fig4.tabulate(runs)
    assert len(table) == 20
    for (one, run), marked in zip(runs, ({2, 9}, {5, 6, 7, 8, 9}), strict=True):
        part = table[table["experiment"] == one.folder.parts[-3]]
        for j, row in enumerate(part.to_dict("records")):
            received = sum(run.trust[0][i, j] for i in range(10) if i != j)
            assert row["trust_received"] == pytest.approx(received)
            assert row["group"] == ("marked" if j in marked else "other")


def test_fig4_takes_an_early_middle_round() -> None:
    ((_, run),) = made_runs([("cifar10", "low-quality", "paper")])
    longer = Run(run.metrics, np.arange(9 * 4).reshape(9, 2, 2), np.arange(9), run.summary)
    np.testing.assert_array_equal(fig4.trust_matrix(longer), longer.trust[2])


def test_theory_counts_rounds_and_measures_both_sides_of_the_lemma() -> None:
    runs = made_runs(needs(["cifar10"], ["regular", "low-quality"], ("static", "paper")))
    table = theory.tabulate(runs)
    for (one, run), row in zip(runs, table.to_dict("records"), strict=True):
        traces = [sum(w[i, i] for i in range(10)) for w in run.trust]
        falls = sum(later <= earlier + 1e-9 for earlier, later in pairwise(traces))
        product_of_all = np.eye(10)
        bound = 1.0
        for w in run.trust:
            product_of_all = w @ product_of_all
            bound *= 1 - min(sum(min(w[i, k], w[j, k]) for k in range(10)) for i in range(10) for j in range(10))
        apart = max(abs(product_of_all[i, k] - product_of_all[j, k]) for i, j, k in product(range(10), repeat=3))
        assert (row["experiment"], row["method"], row["rounds"]) == (one.folder.parts[-3], one.method, len(traces))
        assert (row["stochastic"], row["trace_falls"]) == (len(traces), falls)
        assert (row["trace_first"], row["trace_last"]) == pytest.approx((traces[0], traces[-1]))
        assert (row["delta"], row["bound"]) == pytest.approx((apart, bound))
        low = one.settings.data.low_quality
        assert row["proposition"] == (lower_importance(run.trust, low).holds.sum() if low else -1)
    runs[0][1].trust[1, 3] *= 2
    assert theory.tabulate(runs)["stochastic"][0] == len(runs[0][1].trust) - 1


def verdicts(sentences: list[str]) -> list[bool]:
    """Of every sentence, in order, each time it says whether something holds."""
    return [
        not part.startswith("does not")
        for sentence in sentences
        for part in sentence.replace("does not hold", "|does not").replace(" holds", "|holds").split("|")[1:]
    ]


def table1_of(labels: str, **changed: float) -> pd.DataFrame:
    ours = dict.fromkeys(METHODS, 0.5) | {"alone": 0.3, "naive": 0.58, "static": 0.6, "paper": 0.59} | changed
    rows = [("cifar10", labels, method, ours[method]) for method in METHODS]
    return pd.DataFrame(rows, columns=["dataset", "labels", "method", "ours"])


def test_table1_is_checked_on_three_statements() -> None:
    assert verdicts(table1.check(table1_of("regular"))) == [True, True, True]
    assert table1.check(table1_of("regular"))[0] == (
        "cifar10, regular labels: consensus beats training alone: holds (+0.300)."
    )
    assert verdicts(table1.check(table1_of("regular", alone=0.7))) == [False, True, True]
    assert verdicts(table1.check(table1_of("regular", feddyn=0.61))) == [True, False, True]
    assert verdicts(table1.check(table1_of("regular", naive=0.56))) == [True, True, False]
    assert verdicts(table1.check(table1_of("low-quality", naive=0.2))) == [True, True, True]
    assert verdicts(table1.check(table1_of("low-quality", naive=0.591))) == [True, True, False]
    assert table1.check(table1_of("regular").iloc[1:]) == [], "a table that lacks a method is not judged"


def test_fig4_is_checked_on_the_most_trusted_of_the_marked() -> None:
    rows = [("a", "marked", 0.5), ("a", "other", 0.8), ("b", "marked", 0.5), ("b", "marked", 0.9), ("b", "other", 0.8)]
    table = pd.DataFrame(rows, columns=["experiment", "group", "trust_received"])
    assert verdicts(fig4.check(table)) == [True, False]


def test_fig5_is_checked_for_strong_and_for_weak_agents() -> None:
    rows = [
        ("cifar10", method, group, mean)
        for method, strong, weak in (("alone", 0.2, 0.1), ("naive", 0.4, 0.3), ("paper", 0.5, 0.2))
        for group, mean in (("strong", strong), ("weak", weak))
    ]
    said = fig5.check(pd.DataFrame(rows, columns=["dataset", "method", "group", "mean"]))
    assert verdicts(said) == [True, True, True, False]
    assert said[1] == (
        "cifar10: dynamic trust beats naive for strong agents: holds (+0.100), for weak agents: does not hold (-0.100)."
    )


def lines(scores: dict[str, list[float]], x: list[float]) -> pd.DataFrame:
    rows = [(at, method, value) for method, values in scores.items() for at, value in zip(x, values, strict=True)]
    return pd.DataFrame(rows, columns=["x", "method", "mean"])


def test_fig6_on_epochs_is_checked_step_by_step() -> None:
    said = fig6.check_epochs(lines({"fedavg": [0.2, 0.3, 0.25], "paper": [0.1, 0.1, 0.05]}, [1, 3, 5]))
    assert said == [
        "From 1 to 3 local epochs consensus keeps its accuracy: holds (+0.000), FedAvg loses: does not hold (+0.100).",
        "From 3 to 5 local epochs consensus keeps its accuracy: does not hold (-0.050), FedAvg loses: holds (-0.050).",
    ]


def test_fig6_on_rounds_is_checked_from_the_end_of_the_warmup() -> None:
    def said(dynamic: list[float], fedavg: float) -> list[str]:
        scores = {"alone": [0.1, 0.2, 0.22, 0.25], "paper": dynamic, "fedavg": [fedavg] * 4}
        return fig6.check_rounds(lines(scores, [1, 2, 3, 4]))

    assert said([0.1, 0.2, 0.3, 0.4], 0.45) == [
        "From round 2 to 4 consensus rises more than training alone: holds (+0.200 against +0.050).",
        "Consensus ends above FedAvg: does not hold (-0.050).",
    ]
    assert verdicts(said([0.1, 0.2, 0.2, 0.21], 0)) == [False, True]
    assert verdicts(said([0.1, 0.2, 0.22, 0.25], 0)) == [False, True], "who is always alone does not rise more"
    at_once = fig6.check_rounds(lines({"alone": [0.1, 0.2], "paper": [0.2, 0.4], "fedavg": [0, 0]}, [1, 2]))
    assert at_once[0].startswith("From round 1 to 2"), "without a warm-up"


def test_lambda_is_checked_against_the_best() -> None:
    x = [0.1, 0.5, 2.0]
    best = "Lambda 0.5 is within 0.01 of the best: holds (it is the best)."
    assert lam.check(lines({"paper": [0.1, 0.4, 0.3]}, x)) == [best]
    near = "Lambda 0.5 is within 0.01 of the best: holds (the best is 2, 0.005 above it)."
    assert lam.check(lines({"paper": [0.1, 0.4, 0.405]}, x)) == [near]
    assert verdicts(lam.check(lines({"paper": [0.5, 0.4, 0.4]}, x))) == [False]


def test_communication_is_checked_against_formula_and_server() -> None:
    def table(consensus: int, server: int) -> pd.DataFrame:
        rows = [("alone", 0, 0), ("paper", consensus, 900), ("fedavg", server, 2000), ("scaffold", 4000, 4000)]
        return pd.DataFrame(rows, columns=["method", "bytes_per_round", "formula_bytes"])

    assert verdicts(communication.check(table(900, 2000))) == [True, True, True]
    assert verdicts(communication.check(table(800, 2000))) == [False, True, True]
    assert communication.check(table(900, 800))[1:] == [
        "Server methods: measured bytes equal the formula: does not hold (at most 1,200 off).",
        "Consensus sends less than every server method: does not hold (900 against 800).",
    ]


def test_theory_is_checked_run_by_run() -> None:
    row = {"experiment": "e", "method": "paper", "rounds": 9, "stochastic": 8, "trace_falls": 7}
    row |= {"trace_first": 2.5, "trace_last": 1.25, "delta": 1e-3, "bound": 1e-2, "proposition": 6}
    broken = row | {"delta": 1e-1, "proposition": -1}
    said = theory.check(pd.DataFrame([row, broken]))
    assert said[:4] == [
        "e, paper: W is row-stochastic and positive in 8 of 9 rounds.",
        "e, paper: self-confidence fell in 7 of 8 rounds, from 2.50 to 1.25.",
        "e, paper: the bound of the lemma holds (1.0e-03 against 1.0e-02).",
        "e, paper: the conditions of the proposition on low-quality agents hold in 6 of 9 rounds.",
    ]
    assert len(said) == 7, "without low-quality agents there is no proposition to check"
    assert "the bound of the lemma does not hold" in said[6]


PUBLISHED = {
    "table1-cifar10": [True, False, True, True, False, True],
    "table1-cifar100": [True, False, True, True, False, True],
    "table1-fed-isic2019": [True, False, True, True, False, True],
    "fig4": [True, True],
    "fig5": [True, True, True, False, True, True, False, False, True, True, False, False],
    "fig6-epochs": [True, False, True, True],
    "fig6-rounds": [True, False],
    "lambda": [True],
    "communication": [True, False, False],
    "theory": [True] * 4,
}
"""What docs/reproduce.md says holds, and what it says does not."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_verdicts_in_the_documentation_are_those_of_its_tables(name: str) -> None:
    one = artefact(name)
    assert isinstance(one, FromRuns)
    table = pd.read_csv(Path(__file__).parents[2] / "docs" / "reproduce" / f"{name}.csv")
    assert verdicts(one.check(table)) == PUBLISHED[name]
    assert (verdict(1 > 0), verdict(0 > 1)) == ("holds", "does not hold")
