"""Polynomials that learn one curve together, and panels of fits, for Fig. 1 and the figure of appendix A.1."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.core.metrics import rmse
from consilience.data.scenario import Scenario
from consilience.methods import method_named
from consilience.methods.consensus import Consensus
from consilience.paper.figures import COLOURS, MARKERS
from consilience.paper.toys import watch
from consilience.settings.settings import Settings, changed
from consilience.settings.wiring import build_agents
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROUNDS = 50
WIDE = np.linspace(-8, 8, 161, dtype=np.float32)
"""Where the polynomials are compared beyond X*, which ends at -4 and 4."""
VIEW = (-4.4, 4.4), (-14.0, 30.0)
"""What the panels of fits show; X* ends at -4 and 4."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.2)), (0, (6, 2, 1, 2)))
"""Of agents 0 to 3."""


def train(
    scenario: Scenario, seed: int, degrees: tuple[int, ...], trust: str, keep: Collection[int]
) -> tuple[Array, Array, Array]:
    """Polynomials that train together: their predictions (kept rounds, agents, points) on X* and WIDE, and the trust.

    There is one round of training alone, in which agents estimate the noise of their labels, and lambda is 1.
    """
    models = tuple(f"polynomial-{degree}" for degree in degrees)
    changes = {"dataset": "polynomial", "agents.count": len(degrees), "models": models, "seed": seed}
    agents = build_agents(changed(Settings(), changes), scenario)
    method = method_named(trust, Consensus(warmup=1, lam=1.0))
    points = np.concatenate([scenario.shared, WIDE[:, None]])
    seen, ws = watch(agents, scenario.shared, method, 1, points, keep)
    inside, wide = np.split(np.stack([seen[t][..., 0] for t in keep]), [len(scenario.shared)], axis=2)
    return inside, wide, ws


def largest_difference(f: Array) -> Array:
    """max_x max_{i,j} |f_i(x) - f_j(x)| of predictions (..., agents, points)."""
    return np.asarray(np.ptp(f, axis=-2).max(axis=-1))


def away(scenario: Scenario) -> Array:
    """How many standard deviations of its own data each shared point is from each agent's mean (agents, samples)."""
    return np.stack([np.abs(scenario.shared[:, 0] - s.x.mean()) / s.x.std() for s in scenario.shares.values()])


def errors_of(predictions: Mapping[str, Array], scenario: Scenario) -> "pd.DataFrame":
    """Root mean squared errors on X*, one row per agent and one column per entry of `predictions`."""
    import pandas as pd

    columns = {name: [rmse(row, scenario.shared_y) for row in f] for name, f in predictions.items()}
    return pd.DataFrame({"agent": range(len(scenario.shares))} | columns)


def cubic(x: Array) -> Array:
    """The truth of appendix A, f(x) = 0.5x^3 + 0.3x^2 - 5x + 4."""
    return np.asarray(0.5 * x**3 + 0.3 * x**2 - 5 * x + 4)


def draw_private_data(axes: "Axes", scenario: Scenario, title: str) -> None:
    """The samples of every agent, and the truth."""
    for number, share in enumerate(scenario.shares.values()):
        looks: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "linewidths": 0, "alpha": 0.8}
        axes.scatter(share.x[:, 0], share.y[:, 0], s=13, **looks)
    draw_truth(axes, scenario.shared[:, 0])
    axes.set_title(title)


def draw_curves(axes: "Axes", x: Array, f: Array, width: float = 2.6) -> None:
    """One line per agent, the later ones dashed, so that lines that coincide can all be seen."""
    for number, values in enumerate(f):
        axes.plot(x, values, color=COLOURS[number], linestyle=DASHES[number], linewidth=width - 0.2 * number)


def draw_truth(axes: "Axes", x: Array) -> None:
    """A thin black line."""
    axes.plot(x, cubic(x), color="black", linewidth=0.8, zorder=4)


def label(figure: "Figure", panels: Array, agents: list[str]) -> None:
    """Names of the axes, and a legend with these names of the agents."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[n], linestyle=DASHES[n], marker=MARKERS[n], markersize=4, linewidth=2)
        for n in range(len(agents))
    ]
    handles.append(Line2D([], [], color="black", linewidth=0.8))
    figure.legend(handles, [*agents, "truth"], loc="outside lower center", ncols=len(agents) + 1, handlelength=4)
    panels[0].set_ylabel("y")
    for axes in panels:
        axes.set_xlabel("x")
        axes.grid(True)
