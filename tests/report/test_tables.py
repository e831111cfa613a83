"""Tables say the same on screen, in Markdown and in LaTeX."""

from dataclasses import replace

import numpy as np
from rich.console import Console

from consilience.experiments.compare import Estimate, Line
from consilience.report.tables import compare_grid, size
from consilience.runtime.summary import Summary

SUMMARY = Summary("dynamic", "consensus (dynamic)", "classification", 2, 0, 10)
NOTHING = Estimate(np.nan, np.nan)
LINES = [
    Line("dynamic", "consensus (dynamic)", Estimate(0.8, 0.01), 0.7, Estimate(0.2, 0.05), NOTHING, 1_230_000.0, 2000.0),
    Line("alone", "alone", Estimate(0.6, 0.02), 0.5, NOTHING, Estimate(-0.2, 0.05)),
]


def test_a_comparison_in_three_forms():
    grid = compare_grid(LINES, "accuracy_target", seeds=5)
    assert "| consensus (dynamic) | 0.800 | 0.700 | +0.200 ± 0.050 | - | 1.23 M | 2.0 k |" in grid.markdown()
    assert r"alone & 0.600 & 0.500 & - & -0.200 $\pm$ 0.050 & - & - \\" in grid.latex()
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(grid.for_screen())
    assert "+0.200 ± 0.050" in console.export_text(), "it fits a terminal of 80 columns without breaking a number"


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
