"""The paper's figures from finished runs, each written as PNG and as SVG. Those of the toys are in `toy_figures`.

The colours are told apart by the colour-blind too (Okabe and Ito, Color universal design, 2008); markers, dashes and
hatches tell methods apart on a black-and-white print. The same data give the same SVG, byte by byte.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.core.consensus import trust_received
from consilience.errors import ConsilienceError
from consilience.report.tables import method_title
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHOD_COLOURS = {
    "alone": "#999999",
    "naive": "#E69F00",
    "static": "#56B4E9",
    "dynamic": "#0072B2",
    "fedavg": "#D55E00",
    "fedprox": "#CC79A7",
    "scaffold": "#009E73",
    "feddyn": "#000000",
}
OTHER_COLOUR = "#8C510A"
"""Of a method that is not listed, such as every-5."""
METHOD_MARKERS = dict(zip(METHOD_COLOURS, "xsvoD^P*", strict=True))
DOTS_PER_INCH = 150
STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    "svg.hashsalt": "consilience",
}


@contextmanager
def style() -> Iterator[None]:
    """Our look while a figure is made; whatever matplotlib was set to before holds again afterwards."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConsilienceError("figures need matplotlib: pip install 'consilience[figures]'") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def blank(width: float, height: float) -> "Figure":
    """An empty figure of so many inches that belongs to no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", stem: str | Path) -> tuple[Path, Path]:
    """Writes stem.png and stem.svg and returns their paths. Neither holds a date or a version."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    stem = Path(stem)
    stem.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)
    png, svg = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    figure.savefig(png, dpi=DOTS_PER_INCH, metadata={"Software": None})
    figure.set_layout_engine("none")
    figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def draw_bubbles(
    counts: Mapping[str, Array], class_names: Mapping[str, Sequence[str]], stem: str | Path
) -> tuple[Path, Path]:
    """Fig. 3: how the classes are spread over the agents, one panel per dataset.

    `counts` are samples (agents, classes) by dataset; a bubble's area is proportional to its count. `class_names` are
    by dataset as well; where a dataset has none, classes are numbered.
    """
    with style():
        figure = blank(4.4 * len(counts), 4.0)
        panels = figure.subplots(1, len(counts), squeeze=False)[0]
        for axes, (title, table) in zip(panels, counts.items(), strict=True):
            agents, classes = table.shape
            names = class_names.get(title) or [str(number) for number in range(classes)]
            largest = max(float(table.max()), 1.0)
            diameter = 72 * max(0.1, 0.9 * min(3.0 / agents, 2.9 / classes))
            area = diameter**2 / largest
            agent, label = np.nonzero(table)
            looks: dict[str, Any] = {"color": METHOD_COLOURS["dynamic"], "alpha": 0.7, "linewidths": 0}
            axes.scatter(agent, label, s=area * table[agent, label], **looks)
            for value in _legend_sizes(largest):
                axes.scatter([], [], s=area * value, label=f"{value:,}", **looks)
            apart = max(0.5, diameter / STYLE["legend.fontsize"] - 0.8)
            axes.legend(title="samples", loc="upper left", bbox_to_anchor=(1, 1), labelspacing=apart, borderpad=0.8)
            axes.set(title=title, xlabel="agent", ylabel="class", xlim=(-0.7, agents - 0.3), ylim=(classes - 0.3, -0.7))
            axes.set_xticks(range(agents))
            shown = range(0, classes, 1 if classes <= 20 else 10)
            axes.set_yticks(shown, [names[number] for number in shown])
            axes.grid(True)
        return save(figure, stem)


def draw_trust(
    matrices: Mapping[str, Array], marked: Mapping[str, Sequence[int]], stem: str | Path
) -> tuple[Path, Path]:
    """Fig. 4: trust of each agent (row) in each peer (column), the diagonal masked, the column sums in the lowest bar.

    `matrices` (agents, agents) and the agents `marked` with a frame, such as those with bad data, are by title.
    """
    with style():
        figure = blank(4.0 * len(matrices), 4.3)
        parts = figure.subfigures(1, len(matrices), squeeze=False)[0]
        for part, (title, w) in zip(parts, matrices.items(), strict=True):
            agents = len(w)
            upper, lower = part.subplots(2, 1, sharex=True, height_ratios=(agents, 1.2))
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
            part.colorbar(image, ax=[upper, lower], shrink=0.8, aspect=30, label="trust")
            for axes in (upper, lower):
                axes.spines[:].set_visible(False)
        return save(figure, stem)


def draw_bars(
    table: "pd.DataFrame", stem: str | Path, ylabel: str = "accuracy on the shared data"
) -> tuple[Path, Path]:
    """Fig. 5: one panel per dataset, a bar per method and group of agents; hatched are those with the weak model.

    `table` has the columns dataset, method, group (strong or weak), mean and half_width.
    """
    with style():
        from matplotlib.patches import Patch

        datasets = list(dict.fromkeys(table["dataset"]))
        methods = _in_order(table["method"])
        figure = blank(max(3.2, 0.75 * len(methods) + 0.9) * len(datasets), 3.4)
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            for shift, group, hatch in ((-0.2, "strong", ""), (0.2, "weak", "////")):
                part = table[(table["dataset"] == dataset) & (table["group"] == group)].set_index("method")
                for place, method in enumerate(methods):
                    if method not in part.index:
                        continue
                    mean, half = float(part["mean"][method]), float(np.nan_to_num(part["half_width"][method]))
                    face = _lighter(_colour(method)) if hatch else _colour(method)
                    bar: dict[str, Any] = {"color": face, "hatch": hatch, "edgecolor": "black", "linewidth": 0.8}
                    error: dict[str, Any] = {"elinewidth": 1.2, "capsize": 3, "ecolor": "black"}
                    axes.bar(place + shift, mean, 0.4, yerr=half or None, error_kw=error, **bar)
            axes.set(title=dataset, xlim=(-0.6, len(methods) - 0.4))
            axes.set_xticks(range(len(methods)), [_broken(method) for method in methods])
            axes.grid(True, axis="y")
        panels[0].set_ylabel(ylabel)
        keys = [Patch(facecolor="white", edgecolor="black", label="strong model")]
        keys.append(Patch(facecolor="white", edgecolor="black", hatch="////", label="weak model (fully connected)"))
        figure.legend(handles=keys, loc="outside lower center", ncols=2)
        return save(figure, stem)


def draw_lines(table: "pd.DataFrame", stem: str | Path, xlabel: str, ylabel: str) -> tuple[Path, Path]:
    """Fig. 6: a score against local epochs, rounds or lambda, one line per method with its interval.

    `table` has the columns x, method, mean and half_width. A few x that lie too close to be read are spaced evenly.
    """
    with style():
        figure = blank(5.6, 3.2)
        axes = figure.subplots()
        values = np.unique(table["x"].to_numpy(float))
        few = len(values) <= 12
        crowded = few and len(values) > 1 and np.diff(values).min() < 0.08 * np.ptp(values)
        places = np.arange(len(values)) if crowded else values
        for method in _in_order(table["method"]):
            part = table[table["method"] == method].sort_values("x")
            x, mean = places[np.searchsorted(values, part["x"])], part["mean"].to_numpy(float)
            half = np.nan_to_num(part["half_width"].to_numpy(float))
            dashes = {"fedavg": "--", "fedprox": "--", "scaffold": "--", "feddyn": "--", "alone": ":"}.get(method, "-")
            looks: dict[str, Any] = {"color": _colour(method), "marker": METHOD_MARKERS.get(method, "h")}
            looks |= {"linestyle": dashes, "markersize": 5, "linewidth": 1.6, "label": method_title(method)}
            if few:
                axes.errorbar(x, mean, yerr=half if half.any() else None, capsize=3, elinewidth=1, **looks)
            else:
                axes.plot(x, mean, markevery=max(1, len(values) // 10), **looks)
                axes.fill_between(x, mean - half, mean + half, color=_colour(method), alpha=0.18, linewidth=0)
        if few:
            axes.set_xticks(places, [f"{value:g}" for value in values])
        axes.set(xlabel=xlabel, ylabel=ylabel)
        axes.grid(True)
        figure.legend(loc="outside right upper")
        return save(figure, stem)


def _frame(axes: "Axes", marked: Sequence[int], rows: int) -> None:
    """Frames around the columns of these agents, one for neighbours."""
    from matplotlib.patches import Rectangle

    for first in [agent for agent in marked if agent - 1 not in marked]:
        width = next(n for n in range(1, len(marked) + 1) if first + n not in marked)
        looks: dict[str, Any] = {"fill": False, "edgecolor": METHOD_COLOURS["fedavg"], "linewidth": 2, "clip_on": False}
        axes.add_patch(Rectangle((first - 0.5, -0.5), width, rows, **looks))


def _in_order(methods: Any) -> list[str]:
    """Methods as METHOD_COLOURS lists them, then the others as they come."""
    found = list(dict.fromkeys(methods))
    return [m for m in METHOD_COLOURS if m in found] + [m for m in found if m not in METHOD_COLOURS]


def _colour(method: str) -> str:
    return METHOD_COLOURS.get(method, OTHER_COLOUR)


def _lighter(colour: str) -> tuple[float, ...]:
    """Half way to white, so that a hatch can be seen on it."""
    from matplotlib.colors import to_rgb

    return tuple((1 + part) / 2 for part in to_rgb(colour))


def _broken(method: str) -> str:
    """A method's title in two lines, so that titles of neighbours do not touch."""
    return method_title(method).replace(" (", "\n(")


def _legend_sizes(largest: float) -> list[int]:
    """Two or three round numbers up to the largest count.

    >>> _legend_sizes(4321)
    [400, 2000, 4000]
    """
    unit = 10 ** int(np.log10(largest))
    top = int(largest / unit) * unit
    return sorted({max(1, top // 10), max(1, top // 2), top})
