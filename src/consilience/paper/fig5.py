"""Fig. 5: strong and weak architectures learn together."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.methods import method_named
from consilience.paper.artefact import FromRuns, Runs, intervals, needs, score_of, verdict
from consilience.paper.figures import blank, colour_of, in_order, save, style
from consilience.paper.scales import DATASETS

if TYPE_CHECKING:
    import pandas as pd


def tabulate(runs: Runs) -> "pd.DataFrame":
    """Mean over the agents with the strong and with the weak model."""
    import pandas as pd

    scores: dict[tuple[str, str, str], list[float]] = {}
    for job, run in runs:
        last = run.last_round().set_index("agent")[score_of(job.settings.data.dataset)]
        for group, weak in (("strong", False), ("weak", True)):
            members = [a.name for a in run.summary.agents if (a.model == "linear") == weak]
            scores.setdefault((job.settings.data.dataset, job.method, group), []).append(float(last[members].mean()))
    rows = [(*key, *interval) for key, interval in intervals(scores).items()]
    return pd.DataFrame(rows, columns=["dataset", "method", "group", "mean", "half_width"])


def check(table: "pd.DataFrame") -> list[str]:
    """Dynamic trust against training alone and naive trust, on each dataset."""
    sentences = []
    for dataset, rows in table.groupby("dataset", sort=False):
        mean = rows.pivot_table(index="group", columns="method", values="mean")
        for other in ("alone", "naive"):
            gap = mean["paper"] - mean[other]
            sentences.append(
                f"{dataset}: dynamic trust beats {other} for strong agents: {verdict(gap['strong'] > 0)} "
                f"({gap['strong']:+.3f}), for weak agents: {verdict(gap['weak'] > 0)} ({gap['weak']:+.3f})."
            )
    return sentences


def draw(table: "pd.DataFrame", runs: Runs, stem: Path) -> tuple[Path, Path]:
    """One panel per dataset, a bar per method and group of agents; hatched are those with the weak model."""
    with style():
        from matplotlib.patches import Patch

        datasets = list(dict.fromkeys(table["dataset"]))
        methods = in_order(table["method"])
        figure = blank(max(3.2, 0.75 * len(methods) + 0.9) * len(datasets), 3.4)
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            for shift, group, hatch in ((-0.2, "strong", ""), (0.2, "weak", "////")):
                rows = table[(table["dataset"] == dataset) & (table["group"] == group)].set_index("method")
                for position, method in enumerate(methods):
                    if method not in rows.index:
                        continue
                    mean, half = float(rows["mean"][method]), float(np.nan_to_num(rows["half_width"][method]))
                    face = _lighter(colour_of(method)) if hatch else colour_of(method)
                    bar: dict[str, Any] = {"color": face, "hatch": hatch, "edgecolor": "black", "linewidth": 0.8}
                    error: dict[str, Any] = {"elinewidth": 1.2, "capsize": 3, "ecolor": "black"}
                    axes.bar(position + shift, mean, 0.4, yerr=half or None, error_kw=error, **bar)
            axes.set(title=dataset, xlim=(-0.6, len(methods) - 0.4))
            axes.set_xticks(range(len(methods)), [_broken(method) for method in methods])
            axes.grid(True, axis="y")
        panels[0].set_ylabel("accuracy on the shared data")
        keys = [Patch(facecolor="white", edgecolor="black", label="strong model")]
        keys.append(Patch(facecolor="white", edgecolor="black", hatch="////", label="weak model (fully connected)"))
        figure.legend(handles=keys, loc="outside lower center", ncols=2)
        return save(figure, stem)


def _lighter(colour: str) -> tuple[float, ...]:
    """Half way to white, so that a hatch can be seen on it."""
    from matplotlib.colors import to_rgb

    return tuple((1 + channel) / 2 for channel in to_rgb(colour))


def _broken(method: str) -> str:
    """A method's title in two lines, so that titles of neighbours do not touch."""
    return method_named(method).title.replace(" (", "\n(")


ARTEFACTS = (
    FromRuns(
        "fig5",
        "Fig. 5: strong and weak architectures",
        "Dynamic trust beats training alone and naive trust, for strong and for weak agents.",
        needs(DATASETS, ["two-models"], ("alone", "naive", "paper")),
        tabulate,
        check,
        draw,
    ),
)
