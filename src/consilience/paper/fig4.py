"""Fig. 4: learned trust among agents, some with wrong labels or weak models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.core.consensus import trust_received
from consilience.paper.artefact import FromRuns, Runs, marked_agents, verdict
from consilience.paper.figures import METHOD_COLOURS, blank, save, style
from consilience.paper.scales import experiment
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def trust_matrix(run: Run) -> Array:
    """The matrix of an early middle round of collaboration."""
    return np.asarray(run.trust[len(run.trust) // 4])


def tabulate(runs: Runs) -> "pd.DataFrame":
    """Trust that each agent receives from its peers in an early middle round of collaboration."""
    import pandas as pd

    rows = []
    for job, run in runs:
        received = trust_received(trust_matrix(run))
        marked = marked_agents(run)
        for number, name in enumerate(run.names):
            group = "marked" if number in marked else "other"
            rows.append((job.settings.data.dataset, experiment(job), name, group, float(received[number])))
    return pd.DataFrame(rows, columns=["dataset", "experiment", "agent", "group", "trust_received"])


def check(table: "pd.DataFrame") -> list[str]:
    """Whether bad agents receive less trust than all others, for each experiment."""
    sentences = []
    for where, rows in table.groupby("experiment", sort=False):
        most = rows[rows["group"] == "marked"]["trust_received"].max()
        least = rows[rows["group"] == "other"]["trust_received"].min()
        sentences.append(f"{where}: every marked agent receives less trust than every other: {verdict(most < least)}.")
    return sentences


def draw(table: "pd.DataFrame", runs: Runs, stem: Path) -> tuple[Path, Path]:
    """The matrices of all experiments, bad agents framed."""
    matrices = {experiment(job): trust_matrix(run) for job, run in runs}
    marked = {experiment(job): marked_agents(run) for job, run in runs}
    return draw_trust(matrices, marked, stem)


def draw_trust(
    matrices: Mapping[str, Array], marked: Mapping[str, Sequence[int]], stem: str | Path
) -> tuple[Path, Path]:
    """Trust of each agent (row) in each peer (column), the diagonal masked, the column sums in the lowest bar.

    `matrices` (agents, agents) and the agents `marked` with a frame are by title.
    """
    with style():
        figure = blank(4.0 * len(matrices), 4.3)
        subfigures = figure.subfigures(1, len(matrices), squeeze=False)[0]
        for subfigure, (title, w) in zip(subfigures, matrices.items(), strict=True):
            agents = len(w)
            upper, lower = subfigure.subplots(2, 1, sharex=True, height_ratios=(agents, 1.2))
            shown = np.ma.array(w, mask=np.eye(agents, dtype=bool))
            image = upper.imshow(shown, cmap="cividis", aspect="auto")
            upper.set_facecolor("#FFFFFF")
            sums = trust_received(w)
            lower.imshow(sums[None], cmap="cividis", aspect="auto")
            middle = (sums.min() + sums.max()) / 2
            for agent, value in enumerate(sums if agents <= 16 else ()):
                colour = "black" if value > middle else "white"
                lower.text(agent, 0, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
            _frame(upper, marked.get(title, ()), agents)
            _frame(lower, marked.get(title, ()), 1)
            upper.set(title=title, ylabel="trust of agent", yticks=range(agents))
            upper.tick_params(bottom=False)
            lower.set(xlabel="in agent", xticks=range(agents), yticks=[0], yticklabels=["sum"])
            subfigure.colorbar(image, ax=[upper, lower], shrink=0.8, aspect=30, label="trust")
            for axes in (upper, lower):
                axes.spines[:].set_visible(False)
        return save(figure, stem)


def _frame(axes: "Axes", marked: Sequence[int], rows: int) -> None:
    """Frames around the columns of these agents, one for neighbours."""
    from matplotlib.patches import Rectangle

    for first in [agent for agent in marked if agent - 1 not in marked]:
        width = next(n for n in range(1, len(marked) + 1) if first + n not in marked)
        looks: dict[str, Any] = {"fill": False, "edgecolor": METHOD_COLOURS["fedavg"], "linewidth": 2, "clip_on": False}
        axes.add_patch(Rectangle((first - 0.5, -0.5), width, rows, **looks))


ARTEFACTS = (
    FromRuns(
        "fig4",
        "Fig. 4: learned trust, low-quality agents and weak models",
        "Agents with wrong labels, and agents with weak models, receive less trust than all others.",
        (("cifar10", "low-quality", "paper"), ("cifar100", "two-models", "paper")),
        tabulate,
        check,
        draw,
    ),
)
