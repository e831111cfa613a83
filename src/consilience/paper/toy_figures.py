"""Figures of the toy experiments (`experiments.toys`): Fig. 1, Fig. 2 and the figure of appendix A.1."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.paper.figures import blank, save, style
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from consilience.data.scenario import Scenario
    from consilience.paper.toys import Fig1, Fig2, FigA1

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.2)), (0, (6, 2, 1, 2)))
"""Of agents 0 to 3, and colours and markers of classes 0 to 3."""
VIEW = (-4.4, 4.4), (-14.0, 30.0)
"""What the panels of fits show; X* ends at -4 and 4."""


def draw_fig1(data: "Fig1", stem: str | Path) -> tuple[Path, Path]:
    """Fig. 1: private data, fits after 0, 5 and 20 rounds, and the last ones over a wider range."""
    from consilience.paper.toys import WIDE

    with style():
        from matplotlib.patches import Rectangle

        figure = blank(13, 3.1)
        panels = figure.subplots(1, 5)
        _private_data(panels[0], data.scenario, "(a) private data")
        shared = data.scenario.shared[:, 0]
        for axes, number, title in zip(
            panels[1:4], (0, 5, 20), ("(b) alone", "(c) 5 rounds", "(d) 20 rounds"), strict=True
        ):
            _curves(axes, shared, data.on_shared[number])
            _truth(axes, shared)
            apart = data.course["on_shared"][number]
            axes.set(title=f"{title}: differ by ≤ {apart:.{0 if apart > 10 else 1}f}", xlim=VIEW[0], ylim=VIEW[1])
        wide = panels[4]
        _curves(wide, WIDE, data.on_wide[20], 1.4)
        _truth(wide, WIDE)
        (left, right), (bottom, top) = VIEW
        wide.add_patch(Rectangle((left, bottom), right - left, top - bottom, fill=False, edgecolor="black", zorder=5))
        apart = data.course["on_wide"][20]
        wide.set(title=f"(e) wider range: differ by ≤ {apart:.0f}", xlim=(-8, 8), ylim=(-250, 250))
        inset = wide.inset_axes((0.16, 0.66, 0.42, 0.26))
        _curves(inset, WIDE, data.on_wide[20] - _cubic(WIDE), 1.2)
        inset.set_title("minus the truth", fontsize=7, pad=2)
        inset.tick_params(labelsize=6, length=2)
        _label(figure, panels)
        return save(figure, stem)


def draw_figA1(data: "FigA1", stem: str | Path) -> tuple[Path, Path]:
    """The figure of appendix A.1: private data, and fits alone, with dynamic and with naive trust."""
    from consilience.paper.toys import WIDE

    with style():
        figure = blank(11, 3.4)
        panels = figure.subplots(1, 4)
        _private_data(panels[0], data.scenario, "(a) private data\n")
        titles = {"alone": "(b) alone", "dynamic": "(c) dynamic trust", "naive": "(d) naive trust"}
        for axes, (method, title) in zip(panels[1:], titles.items(), strict=True):
            inside = np.abs(WIDE) <= 4
            _curves(axes, WIDE[inside], data.fits[method][:, inside])
            _truth(axes, WIDE[inside])
            error = data.errors[method][:3].mean()
            axes.set(title=f"{title}\nmean error of strong agents: {error:.1f}", xlim=VIEW[0], ylim=VIEW[1])
        _label(figure, panels, {3: "agent 3 (weak)"})
        return save(figure, stem)


def draw_fig2(data: "Fig2", stem: str | Path) -> tuple[Path, Path]:
    """Fig. 2: private data and decision regions of the four agents, with dynamic and with naive trust."""
    with style():
        figure = blank(12, 5.2)
        parts = figure.subfigures(1, 3, squeeze=False)[0]
        titles = ("(a) private data, labels flipped", "(b) dynamic trust", "(c) naive trust")
        for part, method, title in zip(parts, ("", "dynamic", "naive"), titles, strict=True):
            part.suptitle(title, fontsize=10)
            panels = part.subplots(2, 2, sharex=True, sharey=True)
            for number, axes in enumerate(panels.flat):
                share = data.scenario.shares[str(number)]
                if method:
                    _regions(axes, data.regions[method][number])
                    score = data.accuracies[method][number]
                    axes.set_title(f"agent {number}: accuracy {score:.3f}")
                else:
                    _classes(axes, share.x, share.y)
                    flipped = "all" if str(number) in data.scenario.low_quality else "10 %"
                    axes.set_title(f"agent {number}: {flipped} flipped")
                axes.set(xlim=(-5, 5), ylim=(-5, 5), xticks=(-4, 0, 4), yticks=(-4, 0, 4), aspect="equal")
                axes.spines[:].set_visible(True)
            part.supxlabel("x₁", fontsize=9)
            part.supylabel("x₂", fontsize=9)
        handles, labels = parts[0].axes[0].get_legend_handles_labels()
        meaning = "label in the data, class predicted in a region"
        figure.legend(handles, labels, loc="outside lower center", ncols=4, title=meaning)
        return save(figure, stem)


def _private_data(axes: "Axes", scenario: "Scenario", title: str) -> None:
    for number, share in enumerate(scenario.shares.values()):
        looks: dict[str, Any] = {"color": COLOURS[number], "marker": MARKERS[number], "linewidths": 0, "alpha": 0.8}
        axes.scatter(share.x[:, 0], share.y[:, 0], s=13, **looks)
    _truth(axes, scenario.shared[:, 0])
    axes.set_title(title)


def _curves(axes: "Axes", x: Array, f: Array, width: float = 2.6) -> None:
    """One line per agent, the later ones dashed, so that lines that coincide can all be seen."""
    for number, values in enumerate(f):
        axes.plot(x, values, color=COLOURS[number], linestyle=DASHES[number], linewidth=width - 0.2 * number)


def _cubic(x: Array) -> Array:
    """The truth of appendix A, f(x) = 0.5x^3 + 0.3x^2 - 5x + 4."""
    return np.asarray(0.5 * x**3 + 0.3 * x**2 - 5 * x + 4)


def _truth(axes: "Axes", x: Array) -> None:
    axes.plot(x, _cubic(x), color="black", linewidth=0.8, zorder=4)


def _label(figure: "Figure", panels: Array, names: dict[int, str] | None = None) -> None:
    from matplotlib.lines import Line2D

    agents = 4 if names else 3
    handles = [
        Line2D([], [], color=COLOURS[n], linestyle=DASHES[n], marker=MARKERS[n], markersize=4, linewidth=2)
        for n in range(agents)
    ]
    labels = [(names or {}).get(n, f"agent {n}") for n in range(agents)]
    handles.append(Line2D([], [], color="black", linewidth=0.8))
    figure.legend(handles, [*labels, "truth"], loc="outside lower center", ncols=agents + 1, handlelength=4)
    panels[0].set_ylabel("y")
    for axes in panels:
        axes.set_xlabel("x")
        axes.grid(True)


def _classes(axes: "Axes", x: Array, y: Array) -> None:
    for label in range(4):
        mine = x[y == label]
        looks: dict[str, Any] = {"color": COLOURS[label], "marker": MARKERS[label], "linewidths": 0}
        axes.scatter(mine[:, 0], mine[:, 1], s=16, label=f"class {label}", **looks)


def _regions(axes: "Axes", regions: Array) -> None:
    """Decision regions in light colours with black borders; at each class's mean the marker of what is predicted."""
    from matplotlib.colors import ListedColormap, to_rgb

    from consilience.paper.toys import AXIS, CENTRES

    light = ListedColormap([tuple(0.45 + 0.55 * part for part in to_rgb(colour)) for colour in COLOURS])
    edge = (AXIS[1] - AXIS[0]) / 2
    extent = (AXIS[0] - edge, AXIS[-1] + edge, AXIS[0] - edge, AXIS[-1] + edge)
    axes.imshow(regions, origin="lower", extent=extent, cmap=light, vmin=0, vmax=3, interpolation="nearest")
    for label, (x, y) in enumerate(CENTRES):
        if 0 < (regions == label).mean() < 1:
            axes.contour(AXIS, AXIS, regions == label, levels=[0.5], colors="black", linewidths=0.8)
        predicted = regions[np.abs(AXIS - y).argmin(), np.abs(AXIS - x).argmin()]
        axes.scatter(x, y, s=30, color=COLOURS[predicted], marker=MARKERS[predicted], edgecolors="black")
    axes.axhline(0, color="white", linewidth=1, linestyle=":")
    axes.axvline(0, color="white", linewidth=1, linestyle=":")
