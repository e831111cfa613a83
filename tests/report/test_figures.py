"""Figures are written as PNG and SVG with all their panels, and the same data give the same bytes."""

import struct
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from consilience.experiments.toys import AXIS, CENTRES, ROUNDS, WIDE, Fig1, Fig2, FigA1, gaussian_classes
from consilience.report.figures import METHOD_COLOURS, draw_bars, draw_bubbles, draw_lines, draw_trust
from consilience.report.toy_figures import draw_fig1, draw_fig2, draw_figA1

from consilience.data.scenario import polynomial
from consilience.errors import ConsilienceError

matplotlib = pytest.importorskip("matplotlib")

Draw = Callable[[str | Path], tuple[Path, Path]]


def a_fig1() -> Fig1:
    scenario = polynomial(0, 3)
    agents = np.arange(3)[None, :, None] / (1 + np.arange(ROUNDS + 1))[:, None, None]
    near, far = (agents + np.zeros(len(x)) for x in (scenario.shared, WIDE))
    course = pd.DataFrame({"round": range(ROUNDS + 1), "on_shared": 20.0, "on_wide": 30.0, "parameters": 1.0})
    return Fig1(scenario, near, far, course, pd.DataFrame(), [])


def a_fig_a1() -> FigA1:
    methods = ("alone", "naive", "dynamic")
    fits = {method: np.outer(np.arange(4), WIDE) for method in methods}
    errors = pd.DataFrame({"agent": range(4)} | dict.fromkeys(methods, 0.5))
    return FigA1(polynomial(0, 4), fits, np.zeros(ROUNDS), errors, [])


def a_fig2() -> Fig2:
    grid = np.stack(np.meshgrid(AXIS, AXIS), axis=-1)
    nearest = np.linalg.norm(grid[..., None, :] - CENTRES, axis=-1).argmin(axis=-1)
    regions = {method: np.stack([nearest, nearest, nearest, 0 * nearest]) for method in ("alone", "naive", "dynamic")}
    accuracies = pd.DataFrame({"agent": range(4), "dynamic": 0.9, "naive": 0.8})
    return Fig2(gaussian_classes(0), regions, np.zeros((2, 4)), accuracies, [])


def a_table(x: list[float], half_width: float = 0.01) -> pd.DataFrame:
    methods = [*METHOD_COLOURS, "every-5"]
    rows = [(value, method, 0.1 * place, half_width) for value in x for place, method in enumerate(methods)]
    return pd.DataFrame(rows, columns=["x", "method", "mean", "half_width"])


def bars(stem: str | Path) -> tuple[Path, Path]:
    keys = [(d, m, g) for d in ("cifar10", "cifar100") for m in ("dynamic", "alone") for g in ("strong", "weak")]
    rows = [(*key, 0.5, 0.1 if key[1] == "alone" else np.nan) for key in keys[:-1]]
    return draw_bars(pd.DataFrame(rows, columns=["dataset", "method", "group", "mean", "half_width"]), stem)


def bubbles(stem: str | Path) -> tuple[Path, Path]:
    counts = {"few": np.array([[5, 0, 2], [0, 300, 40]]), "many": np.arange(400).reshape(4, 100)}
    return draw_bubbles(counts, {"few": ["x", "y", "z"]}, stem)


def trust(stem: str | Path) -> tuple[Path, Path]:
    w = np.full((5, 5), 0.2) + 0.01 * np.eye(5)
    return draw_trust({"some are marked": w, "none is": w}, {"some are marked": [0, 2, 3]}, stem)


FIGURES: dict[str, tuple[Draw, tuple[int, int], int]] = {
    "fig1": (lambda stem: draw_fig1(a_fig1(), stem), (1950, 465), 6),
    "figA1": (lambda stem: draw_figA1(a_fig_a1(), stem), (1650, 510), 4),
    "fig2": (lambda stem: draw_fig2(a_fig2(), stem), (1800, 780), 12),
    "bubbles": (bubbles, (1320, 600), 2),
    "trust": (trust, (1200, 645), 6),
    "bars": (bars, (960, 510), 2),
    "few": (lambda stem: draw_lines(a_table([1, 3, 5, 10]), stem, "local epochs", "accuracy"), (840, 480), 1),
    "crowded": (lambda stem: draw_lines(a_table([0, 0.1, 5], np.nan), stem, "λ", "accuracy"), (840, 480), 1),
    "many": (lambda stem: draw_lines(a_table([*range(1, 51)]), stem, "round", "accuracy"), (840, 480), 1),
}
"""How each is drawn, the size of its PNG in pixels, and the number of its panels, an inset and colour bars included."""


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.filterwarnings("error")
def test_every_figure_is_written_whole_and_the_same_every_time(name: str, tmp_path: Path) -> None:
    draw, size, panels = FIGURES[name]
    png, svg = draw(tmp_path / "new folder" / name)
    assert (png, svg) == (tmp_path / "new folder" / f"{name}.png", tmp_path / "new folder" / f"{name}.svg")
    assert png_size(png) == size
    assert panels_of(svg) == panels
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


def test_every_method_has_a_colour_of_its_own() -> None:
    assert set(METHOD_COLOURS) == {"alone", "naive", "static", "dynamic", "fedavg", "fedprox", "scaffold", "feddyn"}
    assert len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS)


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw, _, _ in FIGURES.values():
        with pytest.raises(ConsilienceError, match=r"consilience\[figures\]"):
            draw(tmp_path / "none")
