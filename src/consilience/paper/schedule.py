"""The claim of Table 1, consensus ahead of server methods, at the schedule of the paper: meant for the scale long."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.paper.artefact import FromRuns, Runs, intervals, needs, verdict
from consilience.paper.figures import by_labels, colour_of, save, style
from consilience.paper.scales import SERVER

if TYPE_CHECKING:
    import pandas as pd

RUN = ("fedavg", "scaffold", "alone", "naive", "paper", "consensus")
PLACES = {"shared": "shared data", "target": "fresh images", "own": "own test data"}
MARKS = {"shared": "o", "target": "^", "own": "s"}


def tabulate(runs: Runs) -> "pd.DataFrame":
    """One row per method: accuracy on X*, on fresh images of the target domain and at home, and samples trained on."""
    import pandas as pd

    scores: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    for job, run in runs:
        table = run.last_round()
        good = table[~table["low_quality"]]
        key = job.settings.data.dataset, "low-quality" if job.settings.data.low_quality else "regular", job.method
        trained = float(run.metrics["samples_trained"].sum())
        scores.setdefault(key, []).append((*(float(good[f"accuracy_{where}"].mean()) for where in PLACES), trained))
    rows = []
    half = intervals({key: [by_seed[1] for by_seed in values] for key, values in scores.items()})
    for key, values in scores.items():
        rows.append((*key, *np.mean(values, axis=0), half[key][1], len(values)))
    return pd.DataFrame(rows, columns=["dataset", "labels", "method", *PLACES, "trained", "half_width", "seeds"])


def check(table: "pd.DataFrame") -> list[str]:
    """Our default and the paper's rule against the best server method, at each place."""
    sentences = []
    for (dataset, labels), rows in table.groupby(["dataset", "labels"], sort=False):
        for where in PLACES:
            ours = rows.set_index("method")[where]
            best = ours[[method for method in SERVER if method in ours]].max()
            for method in ("paper", "consensus"):
                ahead = ours[method] - best
                sentences.append(
                    f"{dataset}, {labels} labels, {where}: {method} beats every server method that was run: "
                    f"{verdict(ahead > 0)} ({ahead:+.3f})."
                )
    return sentences


def draw(table: "pd.DataFrame", runs: Runs, stem: Path) -> tuple[Path, Path]:
    """One panel for regular and one for low-quality labels; three dots for each method."""
    from matplotlib.lines import Line2D

    with style():
        figure, panels = by_labels(table, "accuracy")
        for axes, rows, lines in panels:
            colours = [colour_of(method) for method in rows["method"]]
            for position, marker in MARKS.items():
                axes.scatter(rows[position], lines, marker=marker, s=36, c=colours)
        grey: dict[str, Any] = {"color": "#555555", "linestyle": "none", "markersize": 6}
        handles = [Line2D([], [], marker=marker, label=PLACES[position], **grey) for position, marker in MARKS.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return save(figure, stem)


ARTEFACTS = (
    FromRuns(
        "schedule",
        "Table 1 at the paper's schedule: consensus and server methods on CIFAR-10",
        "Consensus beats every server method that was run, on the shared data, on fresh images and at home.",
        needs(["cifar10"], ["regular", "low-quality"], RUN),
        tabulate,
        check,
        draw,
    ),
)
