"""Fig. 1: three polynomials with equal trust agree on X* with different parameters; helpers of Fig. A.1, too."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.core.metrics import rmse
from consilience.data.scenario import Scenario, polynomial
from consilience.methods import method_named
from consilience.methods.consensus import Consensus
from consilience.paper.figures import COLOURS, MARKERS, blank, save, style
from consilience.paper.toys import Claim, Found, Toy, judged, told, watch
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


EXPECTATIONS = {
    "approach": "The largest difference between two agents on X* falls from round 0 to 5 to 20 to 50.",
    "consensus": "From round 20 on no two agents differ anywhere on X* by more than 1, the noise in a label.",
    "parameters": "After 20 rounds some two differ by more than 0.01 in their coefficients.",
    "beyond X*": "After 20 rounds some two differ on [-8, 8] at least five times as much as on X*.",
    "gain": "Every agent is closer to the truth on X* after 20 rounds than alone.",
    "rich and scarce": "Every agent changes less where it has data (within 1 sd) than where it has none (3 sd).",
}
"""The paper's claims as conditions that can fail, written before the first run."""


@dataclass(frozen=True)
class Fig1:
    """Three polynomials of degree 4 with equal trust. `on_shared` and `on_wide` are (rounds + 1, agents, points)."""

    scenario: Scenario
    on_shared: Array
    on_wide: Array
    course: "pd.DataFrame"
    """One row per round: the largest difference between two agents on X*, on [-8, 8], and in their coefficients."""
    errors: "pd.DataFrame"
    """Root mean squared error against the truth on X*, one row per agent: alone, and together after 20 rounds."""
    claims: list[Claim]


def compute(seed: int) -> Fig1:
    """Consensus on X* without the same parameters (section 3.4 of the paper).

    A polynomial of degree 4 does not fit 50 noisy labels exactly, so the differences level off instead of vanishing.
    If they vanished the parameters would be the same: so are polynomials that agree on five points.
    """
    import pandas as pd

    scenario = polynomial(seed, 3)
    on_shared, on_wide, _ = train(scenario, seed, (4, 4, 4), "naive", range(ROUNDS + 1))
    near, far = largest_difference(on_shared), largest_difference(on_wide)
    apart = np.array([coefficient_distance(f) for f in on_wide])
    course = pd.DataFrame({"round": range(ROUNDS + 1), "on_shared": near, "on_wide": far, "parameters": apart})
    errors = errors_of({"alone": on_shared[0], "together": on_shared[20]}, scenario)
    moved = np.abs(on_shared[20] - on_shared[0])
    rich, scarce = (moved.mean(axis=1, where=chosen) for chosen in (away(scenario) <= 1, away(scenario) > 3))
    steps = near[[0, 5, 20, 50]]
    results: Found = {
        "approach": ((np.diff(steps) < 0).all(), told(differences=steps)),
        "consensus": (near[20:].max() <= 1, told(largest=near[20:].max())),
        "parameters": (apart[20] > 0.01, told(distance=apart[20])),
        "beyond X*": (far[20] >= 5 * near[20], told(beyond=far[20], inside=near[20])),
        "gain": ((errors["together"] < errors["alone"]).all(), told(**errors[["alone", "together"]])),
        "rich and scarce": ((rich < scarce).all(), told(with_data=rich, without=scarce)),
    }
    return Fig1(scenario, on_shared, on_wide, course, errors, judged(EXPECTATIONS, results))


def coefficient_distance(f: Array) -> float:
    """The largest Euclidean distance between the coefficients of two polynomials f (agents, points of WIDE)."""
    coefficients = np.polynomial.polynomial.polyfit(WIDE, f.T.astype(np.float64), 4).T
    return float(max(np.linalg.norm(a - b) for a, b in combinations(coefficients, 2)))


def draw(data: Fig1, stem: str | Path) -> tuple[Path, Path]:
    """Private data, fits after 0, 5 and 20 rounds, and the last ones over a wider range."""
    with style():
        from matplotlib.patches import Rectangle

        figure = blank(13, 3.1)
        panels = figure.subplots(1, 5)
        draw_private_data(panels[0], data.scenario, "(a) private data")
        shared = data.scenario.shared[:, 0]
        for axes, number, title in zip(
            panels[1:4], (0, 5, 20), ("(b) alone", "(c) 5 rounds", "(d) 20 rounds"), strict=True
        ):
            draw_curves(axes, shared, data.on_shared[number])
            draw_truth(axes, shared)
            apart = data.course["on_shared"][number]
            axes.set(title=f"{title}: differ by ≤ {apart:.{0 if apart > 10 else 1}f}", xlim=VIEW[0], ylim=VIEW[1])
        wide = panels[4]
        draw_curves(wide, WIDE, data.on_wide[20], 1.4)
        draw_truth(wide, WIDE)
        (left, right), (bottom, top) = VIEW
        wide.add_patch(Rectangle((left, bottom), right - left, top - bottom, fill=False, edgecolor="black", zorder=5))
        apart = data.course["on_wide"][20]
        wide.set(title=f"(e) wider range: differ by ≤ {apart:.0f}", xlim=(-8, 8), ylim=(-250, 250))
        inset = wide.inset_axes((0.16, 0.66, 0.42, 0.26))
        draw_curves(inset, WIDE, data.on_wide[20] - cubic(WIDE), 1.2)
        inset.set_title("minus the truth", fontsize=7, pad=2)
        inset.tick_params(labelsize=6, length=2)
        label(figure, panels, ["agent 0", "agent 1", "agent 2"])
        return save(figure, stem)


ARTEFACTS = (
    Toy(
        "fig1",
        "Fig. 1: polynomial regression, three over-parameterised agents, uniform trust",
        "Agents come to agree on X* with different parameters, and each comes closer to the truth.",
        compute,
        draw,
    ),
)
