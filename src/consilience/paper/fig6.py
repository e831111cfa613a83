"""Fig. 6: accuracy on CIFAR-100 against local epochs, and against rounds."""

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from consilience.paper.artefact import FromRuns, Runs, needs, verdict
from consilience.paper.lines import draw_lines, score_against
from consilience.paper.measures import score_of

if TYPE_CHECKING:
    import pandas as pd


def check_epochs(table: "pd.DataFrame") -> list[str]:
    """Both statements for each step to more epochs."""
    scores = table.pivot_table(index="x", columns="method", values="mean")
    sentences = []
    for fewer, more in pairwise(scores.index):
        gain = scores.loc[more] - scores.loc[fewer]
        kept = f"consensus keeps its accuracy: {verdict(gain['paper'] >= 0)} ({gain['paper']:+.3f})"
        lost = f"FedAvg loses: {verdict(gain['fedavg'] < 0)} ({gain['fedavg']:+.3f})"
        sentences.append(f"From {fewer:g} to {more:g} local epochs {kept}, {lost}.")
    return sentences


def tabulate_rounds(runs: Runs) -> "pd.DataFrame":
    """Score against rounds, mean over all agents."""
    import pandas as pd

    from consilience.experiments.compare import estimate

    tables = []
    for job, run in runs:
        score = score_of(job.settings.data.dataset)
        mean = run.metrics.groupby("round")[score].mean()
        tables.append(pd.DataFrame({"x": mean.index, "method": job.method, "mean": mean.to_numpy()}))
    table = pd.concat(tables).groupby(["x", "method"])["mean"]
    half = table.apply(lambda values: estimate(values.to_numpy()).half_width)
    return pd.DataFrame({"mean": table.mean(), "half_width": half}).reset_index()


def check_rounds(table: "pd.DataFrame") -> list[str]:
    """How far consensus rises from the warm-up, in which it is training alone, and whether it ends above FedAvg."""
    scores = table.pivot_table(index="x", columns="method", values="mean")
    differ = scores.index[scores["paper"] != scores["alone"]]
    collaborating = scores.loc[differ[0] - 1 :] if len(differ) and differ[0] > scores.index[0] else scores
    rise, last = collaborating.iloc[-1] - collaborating.iloc[0], scores.iloc[-1]
    rises = f"rises more than training alone: {verdict(rise['paper'] > rise['alone'])}"
    gap = last["paper"] - last["fedavg"]
    return [
        f"From round {collaborating.index[0]} to {scores.index[-1]} consensus {rises} "
        f"({rise['paper']:+.3f} against {rise['alone']:+.3f}).",
        f"Consensus ends above FedAvg: {verdict(gap > 0)} ({gap:+.3f}).",
    ]


ARTEFACTS = (
    FromRuns(
        "fig6-epochs",
        "Fig. 6, left: accuracy against local epochs, CIFAR-100",
        "Consensus keeps its accuracy with more local epochs, FedAvg loses.",
        needs(["cifar100"], ["epochs-1", "epochs-3", "epochs-5"], ("fedavg", "paper")),
        partial(score_against, value_of=lambda settings: settings.training.epochs),
        check_epochs,
        partial(draw_lines, xlabel="local epochs"),
    ),
    FromRuns(
        "fig6-rounds",
        "Fig. 6, right: accuracy against rounds, CIFAR-100",
        "Consensus rises steeply when collaboration starts and ends above FedAvg.",
        needs(["cifar100"], ["regular"], ("fedavg", "alone", "naive", "paper")),
        tabulate_rounds,
        check_rounds,
        partial(draw_lines, xlabel="round"),
    ),
)
