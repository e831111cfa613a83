"""The figure of appendix A.1: a weak model among strong ones, with dynamic and with naive trust."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.core.consensus import trust_received
from consilience.data.scenario import Scenario, polynomial
from consilience.paper.fig1 import (
    ROUNDS,
    VIEW,
    WIDE,
    away,
    draw_curves,
    draw_private_data,
    draw_truth,
    errors_of,
    label,
    largest_difference,
    train,
)
from consilience.paper.figures import blank, save, style
from consilience.paper.toys import Claim, Found, Toy, judged, told
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd

EXPECTATIONS = {
    "weak underfits": "With dynamic trust the weak agent's error stays above twice that of every strong agent.",
    "strong agree": "With dynamic trust no two strong agents differ on X* by more than 1 after 50 rounds.",
    "strong predict well": "With dynamic trust the error of every strong agent on X* is below 1 after 50 rounds.",
    "little trust": "On average strong agents trust the weak one less than an equal share, 1/4, in every round.",
    "trust falls": "They trust it less in the last round than in the first.",
    "dynamic beats naive": "Every strong agent is closer to the truth on X* with dynamic than with naive trust.",
    "naive impairs": "With naive trust every strong agent is worse than alone even where it has data.",
}
"""The paper's claims as conditions that can fail, written before the first run."""


@dataclass(frozen=True)
class FigA1:
    """Three polynomials of degree 4 and a weak one of degree 1. `fits` are (agents, points of WIDE) by method."""

    scenario: Scenario
    fits: dict[str, Array]
    trust_in_weak: Array
    """Mean over the strong agents (rounds,), with dynamic trust."""
    errors: "pd.DataFrame"
    """Root mean squared error against the truth on X*, one row per agent: alone, naive, dynamic."""
    claims: list[Claim]


def compute(seed: int) -> FigA1:
    """The polynomials trained alone, with naive and with dynamic trust, and the paper's claims."""
    scenario = polynomial(seed, 4)
    inside: dict[str, Array] = {}
    fits: dict[str, Array] = {}
    for method in ("naive", "paper"):
        near, far, ws = train(scenario, seed, (4, 4, 4, 1), method, (0, ROUNDS))
        inside |= {"alone": near[0], method: near[1]}
        fits |= {"alone": far[0], method: far[1]}
    errors = errors_of(inside, scenario)
    strong, weak = errors[:3], errors["paper"][3]
    in_weak = ws[:, :3, 3].mean(axis=1)
    in_strong = trust_received(ws[-1, :3, :3]).mean() / 2
    apart = largest_difference(inside["paper"][:3])
    squares = {name: np.square(f - scenario.shared_y[:, 0]) for name, f in inside.items()}
    own = {name: np.sqrt(values.mean(axis=1, where=away(scenario) <= 1))[:3] for name, values in squares.items()}
    best, naive = strong["paper"], strong["naive"]
    results: Found = {
        "weak underfits": (weak > 2 * best.max(), told(weak=weak, strong=best)),
        "strong agree": (apart <= 1, told(largest=apart)),
        "strong predict well": ((best < 1).all(), told(errors=best)),
        "little trust": ((in_weak < 0.25).all(), told(most=in_weak.max(), in_a_strong_peer_at_last=in_strong)),
        "trust falls": (in_weak[-1] < in_weak[0], told(first=in_weak[0], last=in_weak[-1])),
        "dynamic beats naive": ((best < naive).all(), told(dynamic=best, naive=naive)),
        "naive impairs": ((own["naive"] > own["alone"]).all(), told(**own)),
    }
    return FigA1(scenario, fits, in_weak, errors, judged(EXPECTATIONS, results))


def draw(data: FigA1, stem: str | Path) -> tuple[Path, Path]:
    """Private data, and fits alone, with dynamic and with naive trust."""
    with style():
        figure = blank(11, 3.4)
        panels = figure.subplots(1, 4)
        draw_private_data(panels[0], data.scenario, "(a) private data\n")
        titles = {"alone": "(b) alone", "paper": "(c) dynamic trust", "naive": "(d) naive trust"}
        for axes, (method, title) in zip(panels[1:], titles.items(), strict=True):
            inside = np.abs(WIDE) <= 4
            draw_curves(axes, WIDE[inside], data.fits[method][:, inside])
            draw_truth(axes, WIDE[inside])
            error = data.errors[method][:3].mean()
            axes.set(title=f"{title}\nmean error of strong agents: {error:.1f}", xlim=VIEW[0], ylim=VIEW[1])
        label(figure, panels, ["agent 0", "agent 1", "agent 2", "agent 3 (weak)"])
        return save(figure, stem)


ARTEFACTS = (
    Toy(
        "figA1",
        "Appendix A.1: four polynomials, one of them weak",
        "With dynamic trust strong agents trust the weak one little and predict well; with naive trust it harms them.",
        compute,
        draw,
    ),
)
