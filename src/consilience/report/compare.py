"""A comparison of methods: a drawing of each method's mean, interval and seeds, and a page that opens offline."""

from html import escape
from pathlib import Path

import numpy as np

from consilience.experiments.compare import Comparison, ComparisonLine, good_rows, summarise
from consilience.report import drawing, html
from consilience.report.numbers import number
from consilience.report.run_index import plots, runs_below, runs_grid, standing
from consilience.report.tables import compare_grid
from consilience.runtime.summary import all_of

WIDTH, ROW, LEFT, RIGHT, TOP = 720, 34, 190, 90, 14
ABOUT = (
    "Means are over the agents with good labels, and intervals are 95 % over seeds. Those of the gain and of the "
    "difference to the first method are paired, seed by seed. In the drawing large dots are means and small ones seeds."
)


def write_compare(results: Comparison, score: str, folder: Path, title: str) -> list[Path]:
    """Writes compare.csv, .md, .tex, .html and .svg into `folder`; returns their paths."""
    lines, column = summarise(results, score), score or results.default_score
    runs = [standing(run, folder) for run in runs_below(folder)]
    on_purpose, warnings, notes = (
        all_of(results.summaries, what) for what in ("wrong_on_purpose", "warnings", "notes")
    )
    first, last = [f"<p><strong>{escape(sentence)}</strong></p>" for sentence in on_purpose], []
    if warnings or notes:
        sentences = [*(f"Warning: {text}" for text in warnings), *notes]
        last += [html.heading("How were the data read?"), html.bullets(sentences)]
    last += [*plots(runs), html.heading("Every run"), html.table(runs_grid(runs))]
    last.append(html.paragraph(f"The page of each: consilience watch {folder}"))
    images = {f"{column} of each method": draw(results, lines, column)}
    grids, question = [compare_grid(lines, column, len(results.seeds))], "Which method is the best?"
    path = folder / "compare"
    return html.write_report(path, title, ABOUT, question, grids, images, results.table, first=first, last=last)


def draw(results: Comparison, lines: list[ComparisonLine], column: str) -> str:
    """A row for each method: its seeds, its mean and its interval."""
    by_seed = {m: rows.groupby("seed")[column].mean() for m, rows in good_rows(results.table).groupby("method")}
    ends = [line.score.mean + side * np.nan_to_num(line.score.half_width) for line in lines for side in (-1, 1)]
    every = np.concatenate([*by_seed.values(), ends])
    low, high, margin = drawing.with_margin(float(every.min()), float(every.max()), 0.05)
    height = TOP + ROW * len(lines) + 30
    plot = drawing.Plot(LEFT, WIDTH - RIGHT, TOP, height - 26, low, high, 0, 1)
    elements = []
    for tick in np.linspace(low + margin, high - margin, 5).tolist():
        x = plot.x(tick)
        elements.append(drawing.line([(x, plot.top), (x, plot.bottom)], 'stroke="currentColor" opacity=".15"'))
        elements.append(drawing.label(x, height - 10, number(tick), "middle"))
    for index, line in enumerate(lines):
        y, mean, half = TOP + ROW * (index + 0.5), line.score.mean, float(np.nan_to_num(line.score.half_width))
        elements.append(drawing.label(LEFT - 12, y + 4, line.title[:28], "end"))
        for value in by_seed[line.method]:
            elements.append(drawing.dot(plot.x(value), y, "currentColor", 2.5, style=' opacity=".35"'))
        ends = [(plot.x(mean - half), y), (plot.x(mean + half), y)]
        elements.append(drawing.line(ends, 'stroke="#0077bb" stroke-width="3"'))
        elements.append(drawing.dot(plot.x(mean), y, "#0077bb", 5))
        elements.append(drawing.label(plot.right + 14, y + 4, number(mean)))
    return drawing.svg(WIDTH, height, f"{column} of each method", elements, 12)
