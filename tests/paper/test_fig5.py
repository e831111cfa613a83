"""Figure 5: strong and weak agents."""

import pandas as pd
import pytest

from consilience.paper import fig5
from consilience.paper.artefact import needs
from tests.paper.conftest import made_runs
from tests.paper.loops import TWO, half_width, mean, score, verdicts


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
