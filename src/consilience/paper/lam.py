"""The appendix on lambda, the weight of the pseudo-labels: its value against accuracy."""

from pathlib import Path
from typing import TYPE_CHECKING

from consilience.base.options import to_table
from consilience.paper.artefact import FromRuns, Runs, needs, verdict
from consilience.paper.lines import draw_lines, score_against

if TYPE_CHECKING:
    import pandas as pd


def tabulate(runs: Runs) -> "pd.DataFrame":
    """Score after the last round against lambda."""
    return score_against(runs, lambda settings: to_table(settings.method)["lam"])


def check(table: "pd.DataFrame") -> list[str]:
    """The paper's choice against the best."""
    scores = table.set_index("x")["mean"]
    gap = scores.max() - scores[0.5]
    best = f"the best is {scores.idxmax():g}, {gap:.3f} above it"
    return [f"Lambda 0.5 is within 0.01 of the best: {verdict(gap <= 0.01)} ({best if gap > 0 else 'it is the best'})."]


def draw(table: "pd.DataFrame", runs: Runs, stem: Path) -> tuple[Path, Path]:
    """One line."""
    return draw_lines(table, stem, "lambda")


ARTEFACTS = (
    FromRuns(
        "lambda",
        "Appendix: lambda against accuracy, CIFAR-10",
        "Lambda 0.5 is within 0.01 of the best.",
        needs(["cifar10"], ["lam-0.1", "lam-0.25", "lam-0.5", "lam-1", "lam-2"], ("paper",)),
        tabulate,
        check,
        draw,
    ),
)
