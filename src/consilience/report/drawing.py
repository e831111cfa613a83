"""Components of drawings: SVG with axes, lines, dots and intervals, which opens offline."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from consilience.experiments.compare import Estimate

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "currentColor")
"""Colours that colour-blind readers can tell apart (Okabe and Ito, Color universal design, 2008)."""
DASHES = ("", "6 3", "2 2", "8 3 2 3")
NARROW = 480
"""Widest drawing, in pixels, that is still readable when a page scales it to the screen of a phone."""
GRID_LINE = 'stroke="#8884"'


def svg(
    width: float, height: float, description: str, elements: Iterable[str], font_size: int = 11, scale: float = 1.0
) -> str:
    """A whole drawing, `scale` times as large where there is room; screen readers read its description."""
    kind = ' class="narrow"' if width <= NARROW else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg"{kind} viewBox="0 0 {width} {height}" '
        f'width="{width * scale:g}" height="{height * scale:g}" '
        f'font-family="sans-serif" font-size="{font_size}" fill="currentColor" role="img" '
        f'aria-label="{escape(description)}">'
    )
    return "\n".join([head, *elements, "</svg>"]) + "\n"


def label(x: float, y: float, text: str, anchor: str = "start", bold: bool = False) -> str:
    """Text in a drawing."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def line(points: Iterable[tuple[float, float]], style: str) -> str:
    """A line through points."""
    return f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}" {style} fill="none"/>'


def dot(x: float, y: float, colour: str, radius: float = 3, tip: str = "", style: str = "") -> str:
    """A dot, with a text that is shown where the pointer rests on it."""
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"{style}>{title}</circle>'


def line_style(index: int, dashes: str | None = None, width: float = 1.8) -> str:
    """Colour, dashes and width of the line with this index."""
    dashes = DASHES[index % len(DASHES)] if dashes is None else dashes
    return f'stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="{width}" stroke-dasharray="{dashes}"'


def with_margin(low: float, high: float, share: float) -> tuple[float, float]:
    """A range that is wider by this share on both sides."""
    margin = (high - low) * share or 0.05
    return low - margin, high + margin


def round_ticks(low: float, high: float, most: int, least: float = 0.0) -> list[float]:
    """At most `most` ticks at multiples of 1, 2 or 5 times a power of ten, of `least` at the smallest.

    >>> round_ticks(0.61, 0.84, 5), round_ticks(-0.01, 0.11, 3, least=0.05)
    ([0.65, 0.7, 0.75, 0.8], [0.0, 0.05, 0.1])
    """
    raw = max((high - low) / most, least)
    power = 10.0 ** np.floor(np.log10(raw))
    step = next(k * power for k in (1, 2, 5, 10) if k * power >= raw * (1 - 1e-9))
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(f"{number * step:.9g}") + 0.0 for number in np.arange(first, last + 1)]  # and no -0.0


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Ticks with as many digits after the point as tell them apart.

    >>> tick_texts([0.5, 0.55]), tick_texts([1.0, 2.0])
    (['0.50', '0.55'], ['1', '2'])
    """
    digits = next((n for n in range(9) if all(abs(round(tick, n) - tick) < 1e-9 for tick in ticks)), 9)
    return [f"{tick:.{digits}f}" for tick in ticks]


@dataclass(frozen=True)
class Plot:
    """A rectangle in a drawing, in pixels, and the values at its edges."""

    left: float
    right: float
    top: float
    bottom: float
    first: float
    last: float
    low: float
    high: float

    def x(self, value: float) -> float:
        """The pixel of a value on the horizontal axis."""
        return self.left + (value - self.first) / ((self.last - self.first) or 1) * (self.right - self.left)

    def y(self, value: float) -> float:
        """The pixel of a value on the vertical axis."""
        return self.bottom - (value - self.low) / (self.high - self.low) * (self.bottom - self.top)

    def grid_lines(self, ticks: Sequence[float]) -> list[str]:
        """Horizontal lines with their values to the left."""
        elements = []
        for tick, text in zip(ticks, tick_texts(ticks), strict=True):
            elements.append(line([(self.left, self.y(tick)), (self.right, self.y(tick))], GRID_LINE))
            elements.append(label(self.left - 6, self.y(tick) + 4, text, "end"))
        return elements

    def estimates(self, index: int, name: str, points: Sequence[tuple[float, str, "Estimate"]]) -> list[str]:
        """Dots at (pixel, meaning, estimate), with bars for their intervals, which are cut at the edge of the plot."""
        colour, elements = COLOURS[index % len(COLOURS)], []
        for x, meaning, value in points:
            half = float(np.nan_to_num(value.half_width))
            ends = (max(self.y(value.mean + half), self.top), min(self.y(value.mean - half), self.bottom))
            elements.append(line([(x, end) for end in ends], f'stroke="{colour}"'))
            elements.append(dot(x, self.y(value.mean), colour, tip=f"{name}, {meaning}: {value.text()}"))
        return elements
