"""A comparison as one page that opens offline: the table, and each method's mean, interval and seeds in a drawing."""

from html import escape
from pathlib import Path

import numpy as np

from consilience.base.files import write_atomically
from consilience.experiments.compare import Comparison, ComparisonLine, summarise
from consilience.report import html as shell
from consilience.report.numbers import number
from consilience.report.run_index import plots, runs_below, runs_grid, standing
from consilience.report.tables import compare_grid
from consilience.runtime.summary import all_of

WIDTH, ROW, LEFT, RIGHT, TOP = 720, 34, 190, 90, 14


def write_compare(found: Comparison, score: str, folder: Path, title: str) -> Path:
    """Writes compare.html into `folder`."""
    lines, column = summarise(found, score), score or found.default_score
    seeds = found.table["seed"].nunique()
    runs = [standing(run, folder) for run in runs_below(folder)]
    on_purpose, warnings, notes = (all_of(found.summaries, what) for what in ("wrong_on_purpose", "warnings", "notes"))
    body = [f"<p><strong>{escape(sentence)}</strong></p>" for sentence in on_purpose]
    body += ["<h2>Which method is the best?</h2>", shell.table(compare_grid(lines, column, seeds))]
    legend = "Dot and bar: mean and 95 % interval over seeds. Small dots: single seeds."
    drawn = shell.scrolled(drawing(found, lines, column), "scores of methods")
    body += [f"<h3>{escape(column)}, mean over the agents with good labels</h3>", f"<p>{legend}</p>", drawn]
    body.append("<p>Intervals of the gain and of the difference to the first method are paired, seed by seed.</p>")
    if warnings or notes:
        body += ["<h2>How were the data read?</h2>", shell.bullets([f"Warning: {text}" for text in warnings] + notes)]
    body += [*plots(runs), "<h2>Every run</h2>", shell.table(runs_grid(runs))]
    body.append(f"<p>The page of each: consilience watch {escape(str(folder))}</p>")
    path = folder / "compare.html"
    write_atomically(path, shell.page(title, body).encode())
    return path


def drawing(found: Comparison, lines: list[ComparisonLine], column: str) -> str:
    """A row for each method: its seeds, its mean and its interval."""
    table = found.table
    good = table[~(table["low_quality"] | table.get("attacker", False))]
    by_seed = {m: part.groupby("seed")[column].mean().to_numpy() for m, part in good.groupby("method")}
    ends = [line.score.mean + side * np.nan_to_num(line.score.half_width) for line in lines for side in (-1, 1)]
    every = np.concatenate([*by_seed.values(), ends])
    low, high = float(every.min()), float(every.max())
    room = (high - low) * 0.05 or 0.05
    low, high = low - room, high + room

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    height, parts = TOP + ROW * len(lines) + 30, []
    for tick in np.linspace(low + room, high - room, 5):
        x = across(float(tick))
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - 26}" stroke="currentColor" opacity=".15"/>'
        )
        parts.append(f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle">{number(float(tick))}</text>')
    for place, line in enumerate(lines):
        y, mean, half = TOP + ROW * (place + 0.5), line.score.mean, float(np.nan_to_num(line.score.half_width))
        parts.append(f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(line.title[:28])}</text>')
        for value in by_seed[line.method]:
            parts.append(
                f'<circle cx="{across(float(value)):.1f}" cy="{y}" r="2.5" fill="currentColor" opacity=".35"/>'
            )
        bar = f'x1="{across(mean - half):.1f}" x2="{across(mean + half):.1f}" y1="{y}" y2="{y}"'
        parts.append(f'<line {bar} stroke="#0077bb" stroke-width="3"/>')
        parts.append(f'<circle cx="{across(mean):.1f}" cy="{y}" r="5" fill="#0077bb"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 14}" y="{y + 4}">{number(mean)}</text>')
    head = f'<svg width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" font-size="12"'
    return f'{head} fill="currentColor" aria-label="{escape(column)} of each method">{"".join(parts)}</svg>'
