"""The numbers of the paper's tables, with plain loops, and what their tests share."""

import pandas as pd

from consilience.runtime.run import Run
from tests.paper.conftest import ROUNDS

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


def verdicts(sentences: list[str]) -> list[bool]:
    """Of every sentence, in order, each time it says whether something holds."""
    return [
        not part.startswith("does not")
        for sentence in sentences
        for part in sentence.replace("does not hold", "|does not").replace(" holds", "|holds").split("|")[1:]
    ]


def lines(scores: dict[str, list[float]], x: list[float]) -> pd.DataFrame:
    rows = [(at, method, value) for method, values in scores.items() for at, value in zip(x, values, strict=True)]
    return pd.DataFrame(rows, columns=["x", "method", "mean"])
