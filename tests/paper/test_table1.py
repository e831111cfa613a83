"""Table 1 is the mean over the agents with good labels, and its check says what it says."""

import pandas as pd
import pytest

from consilience.paper import table1
from consilience.paper.artefact import intervals, mean_score, needs, score_of
from consilience.paper.scales import METHODS
from tests.paper.conftest import made_runs
from tests.paper.loops import TWO, half_width, mean, score, verdicts


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
