"""Fig. 1: three polynomials with equal trust agree on X* with different parameters."""

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.data.scenario import Scenario, polynomial
from consilience.paper.figures import blank, save, style
from consilience.paper.polynomials import (
    ROUNDS,
    VIEW,
    WIDE,
    away,
    cubic,
    draw_curves,
    draw_private_data,
    draw_truth,
    errors_of,
    label,
    largest_difference,
    train,
)
from consilience.paper.toys import Claim, Found, Toy, judged, told
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd

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
