"""The theory on real runs."""

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest

from consilience.core.consensus import lower_importance
from consilience.paper import theory
from consilience.paper.artefact import needs
from tests.paper.conftest import made_runs


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
