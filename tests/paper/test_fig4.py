"""Figure 4: the trust that peers receive."""

import numpy as np
import pandas as pd
import pytest

from consilience.paper import fig4
from consilience.runtime.run import Run
from tests.paper.conftest import made_runs
from tests.paper.loops import verdicts


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


def test_fig4_is_checked_on_the_most_trusted_of_the_marked() -> None:
    rows = [("a", "marked", 0.5), ("a", "other", 0.8), ("b", "marked", 0.5), ("b", "marked", 0.9), ("b", "other", 0.8)]
    table = pd.DataFrame(rows, columns=["experiment", "group", "trust_received"])
    assert verdicts(fig4.check(table)) == [True, False]
