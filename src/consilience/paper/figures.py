"""The style of all figures, and their files (PNG and SVG). Each is drawn in the module of its artefact.

Colour-blind readers can distinguish the colours (Okabe and Ito, Color universal design, 2008); markers, dashes and
hatches distinguish methods on a black-and-white print. The same data give the same SVG, byte by byte.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.methods import method_named

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

METHOD_COLOURS = {
    "alone": "#999999",
    "naive": "#E69F00",
    "static": "#56B4E9",
    "paper": "#0072B2",
    "fedavg": "#D55E00",
    "fedprox": "#CC79A7",
    "scaffold": "#009E73",
    "feddyn": "#000000",
}
OTHER_COLOUR = "#8C510A"
"""Of a method that is not listed, such as every-5."""
METHOD_MARKERS = dict(zip(METHOD_COLOURS, "xsvoD^P*", strict=True))
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
"""Of agents 0 to 3, or of classes 0 to 3."""
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
    """Our style while a figure is made; matplotlib's settings are restored afterwards."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConsilienceError("figures need matplotlib: pip install 'consilience[figures]'") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def blank(width: float, height: float) -> "Figure":
    """An empty figure of this size in inches, without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def by_labels(table: "pd.DataFrame", score: str) -> "tuple[Figure, list[tuple[Axes, pd.DataFrame, NDArray[np.int64]]]]":
    """A figure with one panel for every kind of labels; each with its part of the table, and a line for each method."""
    kinds = list(dict.fromkeys(table["labels"]))
    figure = blank(3.6 * len(kinds), 2.9)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharex=True, sharey=True)[0]
    drawn = []
    for axes, kind in zip(panels, kinds, strict=True):
        rows = table[table["labels"] == kind]
        lines = np.arange(len(rows))[::-1]
        axes.set_yticks(lines, [method_named(method).title for method in rows["method"]])
        axes.set(title=f"{kind} labels", xlabel=score)
        axes.grid(True, axis="x")
        drawn.append((axes, rows, lines))
    return figure, drawn


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


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods as METHOD_COLOURS lists them, then the others as they come."""
    names = list(dict.fromkeys(methods))
    return [m for m in METHOD_COLOURS if m in names] + [m for m in names if m not in METHOD_COLOURS]


def colour_of(method: str) -> str:
    """The colour of a method in every figure."""
    return METHOD_COLOURS.get(method, OTHER_COLOUR)
