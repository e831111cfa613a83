"""A score against a number, one line per method: Fig. 6 (local epochs, rounds) and the appendix on lambda."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.base.options import to_table
from consilience.methods import method_named
from consilience.paper.artefact import FromRuns, Runs, intervals, mean_score, needs, score_of, verdict
from consilience.paper.figures import METHOD_MARKERS, blank, colour_of, in_order, save, style
from consilience.settings.settings import Settings

if TYPE_CHECKING:
    import pandas as pd


def score_against(runs: Runs, value_of: Callable[[Settings], float]) -> "pd.DataFrame":
    """Score after the last round against a setting, such as epochs: columns x, method, mean and half_width."""
    import pandas as pd

    scores: dict[tuple[float, str], list[float]] = {}
    for job, run in runs:
        key = float(value_of(job.settings)), job.method
        scores.setdefault(key, []).append(mean_score(run, job.settings.data.dataset))
    rows = [(*key, *interval) for key, interval in sorted(intervals(scores).items())]
    return pd.DataFrame(rows, columns=["x", "method", "mean", "half_width"])


def draw_lines(table: "pd.DataFrame", runs: Runs, stem: str | Path, xlabel: str) -> tuple[Path, Path]:
    """A score against local epochs, rounds or lambda, one line per method with its interval.

    `table` has the columns x, method, mean and half_width. A few x that lie too close to be read are spaced evenly.
    """
    with style():
        figure = blank(5.6, 3.2)
        axes = figure.subplots()
        values = np.unique(table["x"].to_numpy(float))
        few = len(values) <= 12
        crowded = few and len(values) > 1 and np.diff(values).min() < 0.08 * np.ptp(values)
        places = np.arange(len(values)) if crowded else values
        for method in in_order(table["method"]):
            rows = table[table["method"] == method].sort_values("x")
            x, mean = places[np.searchsorted(values, rows["x"])], rows["mean"].to_numpy(float)
            half = np.nan_to_num(rows["half_width"].to_numpy(float))
            dashes = {"fedavg": "--", "fedprox": "--", "scaffold": "--", "feddyn": "--", "alone": ":"}.get(method, "-")
            looks: dict[str, Any] = {"color": colour_of(method), "marker": METHOD_MARKERS.get(method, "h")}
            looks |= {"linestyle": dashes, "markersize": 5, "linewidth": 1.6, "label": method_named(method).title}
            if few:
                axes.errorbar(x, mean, yerr=half if half.any() else None, capsize=3, elinewidth=1, **looks)
            else:
                axes.plot(x, mean, markevery=max(1, len(values) // 10), **looks)
                axes.fill_between(x, mean - half, mean + half, color=colour_of(method), alpha=0.18, linewidth=0)
        if few:
            axes.set_xticks(places, [f"{value:g}" for value in values])
        axes.set(xlabel=xlabel, ylabel="accuracy on the shared data")
        axes.grid(True)
        figure.legend(loc="outside right upper")
        return save(figure, stem)


def check_lambda(table: "pd.DataFrame") -> list[str]:
    """The paper's choice against the best."""
    scores = table.set_index("x")["mean"]
    gap = scores.max() - scores[0.5]
    best = f"the best is {scores.idxmax():g}, {gap:.3f} above it"
    return [f"Lambda 0.5 is within 0.01 of the best: {verdict(gap <= 0.01)} ({best if gap > 0 else 'it is the best'})."]


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
    FromRuns(
        "lambda",
        "Appendix: lambda against accuracy, CIFAR-10",
        "Lambda 0.5 is within 0.01 of the best.",
        needs(["cifar10"], ["lam-0.1", "lam-0.25", "lam-0.5", "lam-1", "lam-2"], ("paper",)),
        partial(score_against, value_of=lambda settings: to_table(settings.method)["lam"]),
        check_lambda,
        partial(draw_lines, xlabel="lambda"),
    ),
)
