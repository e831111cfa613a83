"""Tables say the same on screen, in Markdown and in LaTeX."""

from dataclasses import replace

import numpy as np
from rich.console import Console

from consilience.experiments.compare import ComparisonLine, Estimate
from consilience.report.tables import compare_grid, run_grid, size
from consilience.runtime.summary import Summary

SUMMARY = Summary("paper", "consensus (paper)", "classification", 2, 0, 10)
NOTHING = Estimate(np.nan, np.nan)
LINES = [
    ComparisonLine(
        "paper", "consensus (paper)", Estimate(0.8, 0.01), 0.7, Estimate(0.2, 0.05), NOTHING, 1_230_000.0, 2000.0
    ),
    ComparisonLine("alone", "alone", Estimate(0.6, 0.02), 0.5, NOTHING, Estimate(-0.2, 0.05)),
]


def test_a_comparison_in_three_forms():
    grid = compare_grid(LINES[::-1], "accuracy_target", 5, higher_is_better=True)
    assert "| **consensus (paper)** | **0.800** | 0.700 | +0.200 ± 0.050 | - | 1.23 M | 2.0 k |" in grid.markdown()
    assert r"alone & 0.600 & 0.500 & - & -0.200 $\pm$ 0.050 & - & - \\" in grid.latex()
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(grid)
    assert "+0.200 ± 0.050" in console.export_text(), "it fits a terminal of 80 columns without breaking a number"


def test_a_comparison_has_columns_at_home_where_they_are_known():
    lines = [replace(LINES[0], elsewhere=0.9, home=0.95), replace(LINES[1], elsewhere=0.92)]
    grid = compare_grid(lines, "accuracy_target", 5, higher_is_better=True)
    assert grid.headings[1:5] == ("mean", "at home", "home\nmodel", "worst agent")
    assert [row[1:5] for row in grid.rows] == [("0.800", "0.900", "0.950", "0.700"), ("0.600", "0.920", "-", "0.500")]
    assert compare_grid(lines, "accuracy_own", 5, higher_is_better=True).headings[2] == "on the\ntarget"
    assert compare_grid(LINES, "accuracy_target", 5, higher_is_better=True).headings[2] == "worst agent"


def test_bytes_for_people():
    assert [size(n) for n in (0, 999, 1500, 108_000, 10_800_000)] == ["0 B", "999 B", "1.5 kB", "108 kB", "10.8 MB"]


def test_what_was_sent_is_told_for_every_kind_of_method():
    import pandas as pd

    from consilience import Run
    from consilience.report.tables import weights_sentence
    from consilience.runtime.summary import AgentSummary

    def run(sent: int, trust_rounds: int, model: str = "mlp", parameters: int | None = 1000) -> Run:
        agents = [AgentSummary(name, model, parameters=parameters) for name in "ab"]
        metrics = pd.DataFrame(
            [(t, name, sent) for t in (1, 2) for name in "ab"], columns=["round", "agent", "bytes_sent"]
        )
        return Run(
            metrics, np.full((trust_rounds, 2, 2), 0.5), np.arange(trust_rounds), replace(SUMMARY, agents=agents)
        )

    assert weights_sentence(run(0, 0)) == "Nothing was sent."
    consensus = weights_sentence(run(500, 2))
    assert consensus.startswith("Sent: 2.0 kB in all, 500 B per agent and round.")
    assert consensus.endswith("Sharing weights through a server would have sent 32.0 kB.")
    assert weights_sentence(run(8000, 0)).endswith("the weights themselves, to the server and back.")
    assert "no weights to average (forest)" in weights_sentence(run(500, 2, "forest", None))


def test_trust_of_a_single_round_stands_there_once():
    import pandas as pd

    from consilience import Run
    from consilience.runtime.summary import AgentSummary

    summary = replace(SUMMARY, agents=[AgentSummary(name, "mlp") for name in "ab"])
    metrics = pd.DataFrame({"round": [2, 2], "agent": ["a", "b"]})
    grids = [
        run_grid(Run(metrics, np.full((len(rounds), 2, 2), 0.5), np.array(rounds), summary)) for rounds in ([2], [2, 9])
    ]
    assert [[h for h in grid.headings if h.startswith("trust")] for grid in grids] == [
        ["trust\nround\n2"],
        ["trust\nround\n2", "trust\nround\n9"],
    ]
    assert [len(grid.rows[0]) == len(grid.headings) for grid in grids] == [True, True]


def test_no_column_is_cut_at_80_columns_with_long_names():
    import pandas as pd

    from consilience import Run
    from consilience.runtime.summary import AgentSummary

    names = ["University Hospital Geneva", "Charité Berlin Mitte", "St Thomas' Hospital London"]
    kinds = ["HistGradientBoostingClassifier", "logistic", "mlp"]
    agents = [AgentSummary(n, k, samples=1250, low_quality=n == names[0]) for n, k in zip(names, kinds, strict=True)]
    rows = [(2, name, 0.912, 500) for name in names]
    metrics = pd.DataFrame(rows, columns=["round", "agent", "accuracy_target", "bytes_sent"])
    draws = {"accuracy_target": np.tile(np.linspace(0.8, 0.9, 200, dtype=np.float32), (3, 1))}
    alone = Run(metrics.assign(accuracy_target=0.812), np.zeros((0, 0, 0)), np.zeros(0), SUMMARY, draws=draws)
    trust = np.full((2, 3, 3), 1 / 3)
    summary = replace(SUMMARY, agents=agents)
    run = Run(metrics, trust, np.array([1, 2]), summary, {"alone": alone}, draws=draws)
    for width in (80, 120):
        console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
        console.print(run_grid(run))
        lines = console.export_text().splitlines()
        assert max(map(len, lines)) <= width
        first = next(line for line in lines if "0.912" in line)
        assert first.split()[-2:] == ["0.67", "0.67"], "trust in the first and the last round"
        assert "shifted" in first
        assert first.startswith("Uni")
