"""A comparison of methods: a drawing of each method's mean, interval and seeds, and a page that opens offline."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from consilience.experiments.axes import ALONE
from consilience.experiments.compare import (
    Comparison,
    ComparisonLine,
    Estimate,
    estimate,
    good_rows,
    summarise,
)
from consilience.methods import method_named
from consilience.methods.server import ServerMethod
from consilience.report import drawing, html
from consilience.report.numbers import number
from consilience.report.results_page import write_report
from consilience.report.tables import compare_grid, score_text
from consilience.runtime.summary import all_of

if TYPE_CHECKING:
    import pandas as pd

WIDTH, ROW, RIGHT, TOP = drawing.NARROW, 30, 50, 10
MOST_TILES = 8
LONGEST = 28
"""Letters of a method's name in the drawing."""
ABOUT = (
    "Means are over the agents with good labels, and intervals are 95 % over seeds. Those of the gain and of the "
    "difference to the first method are paired, seed by seed. In the drawing large dots are means and small ones seeds."
)


def write_compare(results: Comparison, score: str, folder: Path, title: str) -> list[Path]:
    """Writes compare.csv, .md, .tex, .html and .svg into `folder`; returns their paths."""
    lines, column = summarise(results, score), score or results.default_score
    higher = results.higher_is_better(column)
    on_purpose, warnings, notes = (
        all_of(results.summaries, what) for what in ("wrong_on_purpose", "warnings", "notes")
    )
    ranked = sorted(lines, key=lambda line: -line.score.mean if higher else line.score.mean)
    gains = ["" if np.isnan(line.gain.mean) else f"gain over alone {line.gain.text(signed=True)}" for line in ranked]
    numbers = [(line.title, number(line.score.mean), gain) for line, gain in zip(ranked, gains, strict=True)]
    last = []
    if warnings or notes:
        sentences = [*(f"Warning: {text}" for text in warnings), *notes]
        last = [html.heading("How were the data read?"), html.bullets(sentences)]
    return write_report(
        folder / "compare",
        title,
        ABOUT,
        "Which method is the best?",
        verdicts(results, score),
        [compare_grid(lines, column, len(results.seeds), higher)],
        {f"{score_text(column)} of each method": draw(results, lines, column)},
        results.table,
        first=[html.verdicts(on_purpose, "down"), html.tiles(numbers[:MOST_TILES])],
        last=last,
        titles=results.titles,
    )


def verdicts(results: Comparison, score: str = "") -> list[str]:
    """Which method is ahead and by how much, which of those that share no weights, and what it gains over alone."""
    column, means = score or results.default_score, _by_seed(results, score or results.default_score)
    sign = 1 if results.higher_is_better(column) else -1
    ranked = sorted(means, key=lambda method: -sign * means[method].mean())
    if len(ranked) < 2:
        return []
    best, second = ranked[:2]
    sentences = [f"{_ahead(results, best, second, estimate(sign * (means[best] - means[second])))}."]
    without = [method for method in ranked if not isinstance(method_named(method), ServerMethod)]
    if without and without[0] != best and without[0] != ALONE:
        value = number(float(means[without[0]].mean()))
        sentences.append(f"{results.titles[without[0]]} is the best that shares no weights ({value}).")
    if ALONE in means and best != ALONE:
        gain = estimate(sign * (means[best] - means[ALONE]))
        sentences.append(f"Against training alone {results.titles[best]} gains {gain.text(signed=True)}.")
    return sentences


def _ahead(results: Comparison, best: str, second: str, difference: Estimate) -> str:
    """That one method is ahead of another, and whether chance may be the reason."""
    seeds, names = len(results.seeds), (results.titles[best], results.titles[second])
    if difference.mean < 0.0005:
        return f"{names[0]} and {names[1]} are level"
    text = f"{names[0]} is ahead of {names[1]}, the next, by {difference.text()}"
    if seeds == 1:
        return f"{text}; with one seed that may be chance"
    return text if difference.mean > difference.half_width else f"{text}; over {seeds} seeds that may be chance"


def _by_seed(results: Comparison, column: str) -> "dict[str, pd.Series[float]]":
    """The mean over agents with good labels, by method and seed."""
    return {str(m): rows.groupby("seed")[column].mean() for m, rows in good_rows(results.table).groupby("method")}


def draw(results: Comparison, lines: list[ComparisonLine], column: str) -> str:
    """A row for each method, the best first: its seeds, its mean and its interval."""
    by_seed, higher = _by_seed(results, column), results.higher_is_better(column)
    lines = sorted(lines, key=lambda line: -line.score.mean if higher else line.score.mean)
    ends = [line.score.mean + side * np.nan_to_num(line.score.half_width) for line in lines for side in (-1, 1)]
    every = np.concatenate([*by_seed.values(), ends])
    low, high = drawing.with_margin(float(every.min()), float(every.max()), 0.05)
    height = TOP + ROW * len(lines) + 30
    left = 24 + 7 * min(LONGEST, max(len(line.title) for line in lines))
    plot = drawing.Plot(left, WIDTH - RIGHT, TOP, height - 26, low, high, 0, 1)
    elements, ticks = [], drawing.round_ticks(low, high, 6)
    for tick, text in zip(ticks, drawing.tick_texts(ticks), strict=True):
        elements.append(drawing.line([(plot.x(tick), plot.top), (plot.x(tick), plot.bottom)], drawing.GRID_LINE))
        elements.append(drawing.label(plot.x(tick), height - 10, text, "middle"))
    for index, line in enumerate(lines):
        y, mean, half = TOP + ROW * (index + 0.5), line.score.mean, float(np.nan_to_num(line.score.half_width))
        colour = drawing.COLOURS[0] if index == 0 else "#7a8794"
        elements.append(drawing.label(left - 12, y + 4, line.title[:LONGEST], "end", bold=index == 0))
        for value in by_seed[line.method]:
            elements.append(drawing.dot(plot.x(value), y, "currentColor", 2.5, style=' opacity=".35"'))
        ends = [(plot.x(mean - half), y), (plot.x(mean + half), y)]
        elements.append(drawing.line(ends, f'stroke="{colour}" stroke-width="3"'))
        elements.append(drawing.dot(plot.x(mean), y, colour, 5, tip=f"{line.title}: {line.score.text()}"))
        elements.append(drawing.label(plot.right + 12, y + 4, number(mean), bold=index == 0))
    return drawing.svg(WIDTH, height, f"{score_text(column)} of each method", elements, 12, scale=1.25)
