"""A score against a number, one line per method: the table and the drawing that Fig. 6 and lambda share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.methods import method_named
from consilience.paper.artefact import Runs
from consilience.paper.figures import METHOD_MARKERS, blank, colour_of, in_order, save, style
from consilience.paper.measures import intervals, mean_score
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
