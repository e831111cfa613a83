"""The appendix on lambda, the weight of the pseudo-labels: its value against accuracy."""

from functools import partial
from typing import TYPE_CHECKING

from consilience.base.options import to_table
from consilience.paper.artefact import FromRuns, needs, verdict
from consilience.paper.lines import draw_lines, score_against

if TYPE_CHECKING:
    import pandas as pd


def check(table: "pd.DataFrame") -> list[str]:
    """The paper's choice against the best."""
    scores = table.set_index("x")["mean"]
    gap = scores.max() - scores[0.5]
    best = f"the best is {scores.idxmax():g}, {gap:.3f} above it"
    return [f"Lambda 0.5 is within 0.01 of the best: {verdict(gap <= 0.01)} ({best if gap > 0 else 'it is the best'})."]


ARTEFACTS = (
    FromRuns(
        "lambda",
        "Appendix: lambda against accuracy, CIFAR-10",
        "Lambda 0.5 is within 0.01 of the best.",
        needs(["cifar10"], ["lam-0.1", "lam-0.25", "lam-0.5", "lam-1", "lam-2"], ("paper",)),
        partial(score_against, value_of=lambda settings: to_table(settings.method)["lam"]),
        check,
        partial(draw_lines, xlabel="lambda"),
    ),
)
