"""What is sent, beside the formula and a server."""

from itertools import product

import pandas as pd

from consilience.paper import communication
from consilience.paper.artefact import needs
from consilience.paper.scales import CONSENSUS, METHODS
from tests.paper.conftest import CLASSES, PARAMETERS, ROUNDS, SHARED, made_runs
from tests.paper.loops import verdicts


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
