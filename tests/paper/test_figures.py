"""Figures are written as PNG and SVG with all their panels, and the same data give the same bytes."""

import re
import struct
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from consilience.data.scenario import polynomial
from consilience.paper import communication, fig1, fig2, fig4, fig5, figA1, lines, schedule, table1, theory
from consilience.paper.artefact import FromRuns, needs
from consilience.paper.fig1 import ROUNDS, WIDE, Fig1
from consilience.paper.fig2 import AXIS, CENTRES, Fig2, gaussian_classes
from consilience.paper.fig3 import draw_bubbles
from consilience.paper.figA1 import FigA1
from consilience.paper.figures import (
    COLOURS,
    MARKERS,
    METHOD_COLOURS,
    METHOD_MARKERS,
    OTHER_COLOUR,
    colour_of,
    in_order,
)
from consilience.paper.lines import draw_lines
from consilience.paper.scales import METHODS
from consilience.runtime.run import Run
from consilience.workers.job import Job
from tests.paper.conftest import made_runs

matplotlib = pytest.importorskip("matplotlib")

Draw = Callable[[str | Path], tuple[Path, Path]]


def a_fig1() -> Fig1:
    scenario = polynomial(0, 3)
    agents = np.arange(3)[None, :, None] / (1 + np.arange(ROUNDS + 1))[:, None, None]
    near, far = (agents + np.zeros(len(x)) for x in (scenario.shared, WIDE))
    course = pd.DataFrame({"round": range(ROUNDS + 1), "on_shared": 20.0, "on_wide": 30.0, "parameters": 1.0})
    return Fig1(scenario, near, far, course, pd.DataFrame(), [])


def a_fig_a1() -> FigA1:
    methods = ("alone", "naive", "paper")
    fits = {method: np.outer(np.arange(4), WIDE) for method in methods}
    errors = pd.DataFrame({"agent": range(4)} | dict.fromkeys(methods, 0.5))
    return FigA1(polynomial(0, 4), fits, np.zeros(ROUNDS), errors, [])


def a_fig2() -> Fig2:
    grid = np.stack(np.meshgrid(AXIS, AXIS), axis=-1)
    nearest = np.linalg.norm(grid[..., None, :] - CENTRES, axis=-1).argmin(axis=-1)
    regions = {method: np.stack([nearest, nearest, nearest, 0 * nearest]) for method in ("alone", "naive", "paper")}
    accuracies = pd.DataFrame({"agent": range(4), "paper": 0.9, "naive": 0.8})
    return Fig2(gaussian_classes(0), regions, np.zeros((2, 4)), accuracies, [])


def a_table(x: list[float], half_width: float = 0.01) -> pd.DataFrame:
    methods = [*METHOD_COLOURS, "every-5"]
    rows = [(value, method, 0.1 * place, half_width) for value in x for place, method in enumerate(methods)]
    return pd.DataFrame(rows, columns=["x", "method", "mean", "half_width"])


def bars(stem: str | Path) -> tuple[Path, Path]:
    keys = [(d, m, g) for d in ("cifar10", "cifar100") for m in ("paper", "alone") for g in ("strong", "weak")]
    rows = [(*key, 0.5, 0.1 if key[1] == "alone" else np.nan) for key in keys[:-1]]
    table = pd.DataFrame(rows, columns=["dataset", "method", "group", "mean", "half_width"])
    return fig5.draw(table, [], Path(stem))


def bubbles(stem: str | Path) -> tuple[Path, Path]:
    counts = {"few": np.array([[5, 0, 2], [0, 300, 40]]), "many": np.arange(400).reshape(4, 100)}
    return draw_bubbles(counts, {"few": ["x", "y", "z"]}, stem)


def trust(stem: str | Path) -> tuple[Path, Path]:
    w = np.full((5, 5), 0.2) + 0.01 * np.eye(5)
    return fig4.draw_trust({"some are marked": w, "none is": w}, {"some are marked": [0, 2, 3]}, stem)


def drawn(module: ModuleType | FromRuns, made: list[tuple[Job, Run]]) -> Draw:
    """The figure of an artefact from its own table."""
    return lambda stem: module.draw(module.tabulate(made), made, Path(stem))


def a_table1(stem: str | Path) -> tuple[Path, Path]:
    made = made_runs(needs(["cifar10"], ["regular", "low-quality"], METHODS), (0, 1))
    return table1.draw(table1.tabulate(made), made, Path(stem))


TWO_TRUSTS = [("cifar10", "low-quality", "paper"), ("cifar100", "two-models", "paper")]
TRUST_OVER_SEEDS = made_runs(needs(["cifar10"], ["regular"], ["static", "paper"]), (3, 4))
LAMBDAS = needs(["cifar10"], ["lam-0.1", "lam-2"], ["paper"])
FIGURES: dict[str, tuple[Draw, tuple[int, int], int]] = {
    "fig1": (lambda stem: fig1.draw(a_fig1(), stem), (1950, 465), 6),
    "figA1": (lambda stem: figA1.draw(a_fig_a1(), stem), (1650, 510), 4),
    "fig2": (lambda stem: fig2.draw(a_fig2(), stem), (1800, 780), 12),
    "bubbles": (bubbles, (1320, 600), 2),
    "table1": (a_table1, (1080, 435), 2),
    "trust": (trust, (1200, 645), 6),
    "fig4": (drawn(fig4, made_runs(TWO_TRUSTS)), (1200, 645), 6),
    "bars": (bars, (960, 510), 2),
    "few": (lambda stem: draw_lines(a_table([1, 3, 5, 10]), [], stem, "local epochs"), (840, 480), 1),
    "crowded": (lambda stem: draw_lines(a_table([0, 0.1, 5], np.nan), [], stem, "λ"), (840, 480), 1),
    "many": (lambda stem: draw_lines(a_table([*range(1, 51)]), [], stem, "round"), (840, 480), 1),
    "epochs": (lambda stem: lines.ARTEFACTS[0].draw(a_table([1, 3, 5]), [], Path(stem)), (840, 480), 1),
    "rounds": (lambda stem: lines.ARTEFACTS[1].draw(a_table([*range(1, 51)]), [], Path(stem)), (840, 480), 1),
    "lambda": (drawn(lines.ARTEFACTS[2], made_runs(LAMBDAS)), (840, 480), 1),
    "communication": (drawn(communication, made_runs(needs(["cifar10"], ["regular"], METHODS))), (840, 420), 1),
    "schedule": (drawn(schedule, made_runs(schedule.ARTEFACTS[0].needs)), (1080, 435), 2),
    "theory": (drawn(theory, TRUST_OVER_SEEDS), (1260, 480), 2),
}
"""How each is drawn, the size of its PNG in pixels, and the number of its panels, an inset and colour bars included."""

WORDS: dict[str, tuple[str, ...]] = {
    "table1": ("regular labels", "low-quality labels", "consensus (paper)", "printed in the paper"),
    "fig4": ("cifar10-low-quality", "cifar100-two-models", "trust of agent"),
    "bars": ("cifar10", "strong model", "weak model (fully connected)"),
    "epochs": ("local epochs", "accuracy on the shared data", "FedAvg"),
    "rounds": ("round", "accuracy on the shared data"),
    "lambda": ("lambda", "accuracy on the shared data", "0.1", "2"),
    "communication": ("megabytes of all agents in a round", "SCAFFOLD", "formula"),
    "schedule": ("regular labels", "low-quality labels", "consensus", "fresh images", "own test data"),
    "theory": ("cifar10-regular, static", "cifar10-regular, paper", "trace of W"),
    "bubbles": ("few", "many", "x", "samples"),
}
"""Words that a figure must show."""


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.filterwarnings("error")
def test_every_figure_is_written_whole_and_the_same_every_time(name: str, tmp_path: Path) -> None:
    draw, size, panels = FIGURES[name]
    png, svg = draw(tmp_path / "new folder" / name)
    assert (png, svg) == (tmp_path / "new folder" / f"{name}.png", tmp_path / "new folder" / f"{name}.svg")
    assert png_size(png) == size
    assert panels_of(svg) == panels
    assert set(WORDS.get(name, ())) <= texts(svg)
    again = draw(str(tmp_path / "again"))
    assert svg.read_bytes() == again[1].read_bytes()
    assert png.read_bytes() == again[0].read_bytes()


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert head[12:16] == b"IHDR"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def panels_of(path: Path) -> int:
    """Panels in an SVG of matplotlib, which gives each an id such as axes_3."""
    text = path.read_text(encoding="utf-8")
    assert "<dc:date>" not in text
    root = ElementTree.fromstring(text)
    return sum(element.get("id", "").startswith("axes_") for element in root.iter())


def test_drawing_leaves_the_settings_of_matplotlib_alone(tmp_path: Path) -> None:
    with matplotlib.rc_context({"font.size": 21, "savefig.dpi": 33}):
        before = dict(matplotlib.rcParams)
        bars(tmp_path / "theirs")
        assert dict(matplotlib.rcParams) == before
    bars(tmp_path / "ours")
    assert (tmp_path / "theirs.svg").read_bytes() == (tmp_path / "ours.svg").read_bytes()


def test_a_stem_with_a_dot_keeps_it(tmp_path: Path) -> None:
    png, svg = bars(tmp_path / "lam-0.5")
    assert (png.name, svg.name) == ("lam-0.5.png", "lam-0.5.svg")


def texts(path: Path) -> set[str]:
    """The words of an SVG of matplotlib, which draws letters as shapes and names each word in a comment."""
    return {*re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8"))}


def test_values_that_lie_too_close_to_be_read_are_spaced_evenly(tmp_path: Path) -> None:
    def gaps(name: str) -> list[float]:
        """Between the marks on the x axis."""
        text = FIGURES[name][0](tmp_path / name)[1].read_text(encoding="utf-8")
        marks = [part.split('x="')[1].split('"')[0] for part in text.split('<g id="xtick_')[1:]]
        return [later - earlier for earlier, later in pairwise(map(float, marks))]

    crowded, few = gaps("crowded"), gaps("few")
    assert crowded == pytest.approx([crowded[0]] * 2), "0, 0.1 and 5"
    assert few == pytest.approx([few[0], few[0], few[0] * 5 / 2]), "1, 3, 5 and 10"


def test_theory_is_drawn_for_the_first_seed(tmp_path: Path) -> None:
    both = made_runs(needs(["cifar10"], ["regular"], ["paper"]), (3, 4))
    _, svg = theory.draw(theory.tabulate(both), both, tmp_path / "both")
    _, first = theory.draw(theory.tabulate(both[:1]), both[:1], tmp_path / "first")
    _, second = theory.draw(theory.tabulate(both[1:]), both[1:], tmp_path / "second")
    assert svg.read_bytes() == first.read_bytes() != second.read_bytes()


def test_methods_are_drawn_in_one_order_and_unknown_ones_last() -> None:
    assert in_order(["every-5", "fedavg", "paper", "fedavg", "alone"]) == ["alone", "paper", "fedavg", "every-5"]
    assert (colour_of("paper"), colour_of("every-5")) == (METHOD_COLOURS["paper"], OTHER_COLOUR)


def test_every_method_has_a_colour_of_its_own() -> None:
    assert len(set(METHOD_MARKERS.values())) == len(METHOD_MARKERS)
    assert len(set(COLOURS)) == len(set(MARKERS)) == 4
    assert set(METHOD_COLOURS) == {"alone", "naive", "static", "paper", "fedavg", "fedprox", "scaffold", "feddyn"}
    assert len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS)


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw, _, _ in FIGURES.values():
        with pytest.raises(ConsilienceError, match=r"consilience\[figures\]"):
            draw(tmp_path / "none")
