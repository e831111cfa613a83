"""Table 1: every method on three datasets, with regular and with low-quality labels."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.paper.artefact import FromRuns, Runs, intervals, mean_score, needs, verdict
from consilience.paper.figures import METHOD_COLOURS, by_labels, save, style
from consilience.paper.scales import DATASETS, METHODS, SERVER

if TYPE_CHECKING:
    import pandas as pd

PRINTED = {
    ("cifar10", "regular"): (0.542, 0.517, 0.578, 0.578, 0.475, 0.618, 0.604, 0.612),
    ("cifar100", "regular"): (0.261, 0.240, 0.317, 0.310, 0.178, 0.311, 0.319, 0.308),
    ("fed-isic2019", "regular"): (0.279, 0.261, 0.213, 0.243, 0.248, 0.290, 0.302, 0.291),
    ("cifar10", "low-quality"): (0.541, 0.530, 0.570, 0.575, 0.470, 0.596, 0.605, 0.608),
    ("cifar100", "low-quality"): (0.254, 0.240, 0.289, 0.308, 0.171, 0.285, 0.300, 0.306),
    ("fed-isic2019", "low-quality"): (0.229, 0.242, 0.221, 0.243, 0.217, 0.247, 0.249, 0.269),
}
"""As printed, in the order of METHODS."""


def tabulate(runs: Runs) -> "pd.DataFrame":
    """One row per data setting and method: ours (mean and 95 % half-width over seeds), beside the printed number."""
    import pandas as pd

    scores: dict[tuple[str, str, str], list[float]] = {}
    for job, run in runs:
        dataset, variant = job.settings.data.dataset, "low-quality" if job.settings.data.low_quality else "regular"
        scores.setdefault((dataset, variant, job.method), []).append(mean_score(run, dataset))
    rows = []
    for (dataset, variant, method), interval in intervals(scores).items():
        seeds = len(scores[dataset, variant, method])
        printed = PRINTED[dataset, variant][METHODS.index(method)]
        rows.append((dataset, variant, method, *interval, seeds, printed))
    return pd.DataFrame(rows, columns=["dataset", "labels", "method", "ours", "half_width", "seeds", "paper"])


def check(table: "pd.DataFrame") -> list[str]:
    """The paper's three statements on Table 1, checked on ours."""
    sentences = []
    for (dataset, labels), rows in table.groupby(["dataset", "labels"], sort=False):
        ours = rows.set_index("method")["ours"]
        if not set(METHODS) <= set(ours.index):
            continue
        best = max(ours["static"], ours["paper"])
        over_alone, over_server = best - ours["alone"], best - ours[list(SERVER)].max()
        gap = ours["paper"] - ours["naive"]
        if labels == "low-quality":
            over_naive = f"dynamic trust beats naive trust: {verdict(gap > 0)}"
        else:
            over_naive = f"dynamic trust stays within 0.02 of naive trust: {verdict(abs(gap) < 0.02)}"
        where = f"{dataset}, {labels} labels"
        sentences += [
            f"{where}: consensus beats training alone: {verdict(over_alone > 0)} ({over_alone:+.3f}).",
            f"{where}: consensus beats every server method: {verdict(over_server > 0)} ({over_server:+.3f}).",
            f"{where}: {over_naive} ({gap:+.3f}).",
        ]
    return sentences


def draw(table: "pd.DataFrame", runs: Runs, stem: Path) -> tuple[Path, Path]:
    """One panel for regular and one for low-quality labels; our score with its interval, and the printed one."""
    with style():
        figure, panels = by_labels(table, "score on the shared data")
        for axes, rows, lines in panels:
            colours = [METHOD_COLOURS.get(method, "black") for method in rows["method"]]
            half = np.nan_to_num(rows["half_width"].to_numpy(float))
            axes.barh(lines, rows["ours"], 0.6, color=colours, xerr=half if half.any() else None, capsize=3)
            axes.scatter(rows["paper"], lines, marker="|", s=140, color="black", label="printed in the paper")
        handles, names = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center")
        return save(figure, stem)


ARTEFACTS = tuple(
    FromRuns(
        f"table1-{dataset}",
        f"Table 1: {dataset}, regular and low-quality labels",
        "With regular labels dynamic and naive trust are within 0.02 of each other; with low-quality labels "
        "dynamic beats naive; consensus beats training alone and every server method.",
        needs([dataset], ["regular", "low-quality"], METHODS),
        tabulate,
        check,
        draw,
    )
    for dataset in DATASETS
)
