"""A sweep as a table, sentences, drawings and a page that opens offline."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from consilience.experiments.axes import Axis, setting_text
from consilience.experiments.compare import Choice, Comparison, ComparisonLine, Estimate, choose, summarise
from consilience.report import drawing
from consilience.report.results_page import write_report
from consilience.report.tables import Grid, score_text

CELL, ROW, LEFT, TOP = 96, 46, 90, 54
"""Measures of a heat map, in pixels."""
WIDTH, HEIGHT, BOTTOM, RIGHT = 620, 300, 44, 150
"""Measures of curves, in pixels."""
STAR = "* chosen on the first half of the seeds."


def grid(results: Comparison, score: str = "") -> Grid:
    """Every method and setting with its mean and 95 % interval, the best first; each method's choice has a star."""
    lines, column = summarise(results, score), score or results.default_score
    chosen = [(choice.method, choice.given | choice.setting) for choice in choose(results, score)]
    gains = any(not np.isnan(line.gain.mean) for line in lines)
    sign = -1 if results.higher_is_better(column) else 1
    problems = [str({key: value for key, value in line.setting.items() if key in results.given}) for line in lines]
    first = list(dict.fromkeys(problems))
    order = sorted(range(len(lines)), key=lambda n: (first.index(problems[n]), sign * lines[n].score.mean))
    rows, best, seen = [], set[tuple[int, int]](), set[str]()
    for number, index in enumerate(order):
        line = lines[index]
        if problems[index] not in seen:  # the best of this problem
            seen.add(problems[index])
            best |= {(number, 0), (number, 1 + len(results.axes))}
        values = tuple(value_text(line.setting.get(axis.key)) for axis in results.axes)
        star = "*" if (line.method, line.setting) in chosen else ""
        gain = ("" if np.isnan(line.gain.mean) else line.gain.text(signed=True),) if gains else ()
        rows.append((line.title + star, *values, line.score.text(), f"{line.worst:.3f}", *gain))
    title = f"{score_text(column)}, mean over agents with good labels and {len(results.seeds)} seeds; ± 95 % interval"
    headings = ("method", *(axis.key for axis in results.axes), "mean", "worst agent", *["gain over alone"] * gains)
    return Grid(title, headings, rows, words=1, best=frozenset(best))


def sentences(results: Comparison, score: str = "") -> list[str]:
    """Which setting was chosen on which seeds, and its score on the others."""
    choices = choose(results, score)
    if not choices:
        alone = "with a single seed" if len(results.seeds) < 2 else "with a single setting of each method"
        return [f"No setting was chosen: {alone} there is nothing to choose by that is not also measured."]
    return [_choice_sentence(choice, results.titles[choice.method]) for choice in choices]


def _choice_sentence(choice: Choice, title: str) -> str:
    given = f" with {setting_text(choice.given)}" if choice.given else ""
    return (
        f"{title}{given}: {setting_text(choice.setting)} is the best on {seeds_text(choice.tuning)} "
        f"({choice.on_tuning.text()}); on {seeds_text(choice.held_out)}, which had no part in the "
        f"choice, it reaches {choice.on_held_out.text()}."
    )


def drawings(results: Comparison, score: str = "") -> dict[str, str]:
    """SVGs by title: curves for one axis; for more, a heat map for each method and value of the further axes.

    Where one axis is given and others are chosen, first the curves of what was chosen, on the seeds that chose nothing.
    """
    lines = summarise(results, score)
    if len(results.axes) == 1:
        return {f"Score against {results.axes[0].key}": curves(results.axes[0], lines)}
    images = {}
    given = [axis for axis in results.axes if axis.key in results.given]
    best = [
        ComparisonLine(c.method, results.titles[c.method], c.on_held_out, setting=c.given)
        for c in choose(results, score)
    ]
    if len(given) == 1 and best:
        others = ", ".join(axis.key for axis in results.axes if axis is not given[0])
        images[f"Score against {given[0].key}, each with its best {others}"] = curves(given[0], best)
    first, second, *rest = results.axes
    shown = [line for line in lines if first.key in line.setting and second.key in line.setting]
    means = [line.score.mean for line in shown] or [0.0, 1.0]
    low, high = min(means), max(means)
    for method, name in results.titles.items():
        own = [line for line in lines if line.method == method]
        if own[0].setting.keys() < {first.key, second.key}:
            axes = [axis for axis in (first, second) if axis.key in own[0].setting]
            if axes and len(own) > 1:
                images[f"{name}: score against {axes[0].key}"] = curves(axes[0], own)
            continue
        for values in product(*(axis.values for axis in rest if axis.key in own[0].setting)):
            fixed = dict(zip((axis.key for axis in rest), values, strict=True))
            matching = [line for line in own if fixed.items() <= line.setting.items()]
            title = f"{name}, {setting_text(fixed)}" if fixed else name
            images[title] = heat_map(first, second, matching, low, high)
    return images


def heat_map(down: Axis, across: Axis, lines: Sequence[ComparisonLine], low: float, high: float) -> str:
    """A cell for every pair of values: the mean, its interval below it, and the stronger the colour the higher."""
    width, height = LEFT + CELL * len(across.values) + 8, TOP + ROW * len(down.values) + 8
    elements = [
        drawing.label(LEFT + CELL * len(across.values) / 2, 16, across.key, "middle", bold=True),
        drawing.label(4, TOP - 10, down.key, bold=True),
    ]
    for column, value in enumerate(across.values):
        elements.append(drawing.label(LEFT + CELL * (column + 0.5), TOP - 10, value_text(value), "middle"))
    for row, value in enumerate(down.values):
        elements.append(drawing.label(LEFT - 8, TOP + ROW * (row + 0.5) + 4, value_text(value), "end"))
        for column, other in enumerate(across.values):
            wanted = {down.key: value, across.key: other}
            for line in lines:
                if wanted.items() <= line.setting.items():
                    elements.append(_cell(LEFT + CELL * column, TOP + ROW * row, line.score, low, high))
    return drawing.svg(width, height, f"score by {down.key} and {across.key}", elements, 12)


def curves(axis: Axis, lines: Sequence[ComparisonLine]) -> str:
    """The score against the values of one axis, a line for each method with bars for the intervals."""
    ends = [line.score.mean + sign * float(np.nan_to_num(line.score.half_width)) for line in lines for sign in (-1, 1)]
    low, high = float(np.floor(min(ends) * 20) / 20), float(np.ceil(max(ends) * 20) / 20)
    high = high if high > low else low + 0.05
    plot = drawing.Plot(50, WIDTH - RIGHT, 20, HEIGHT - BOTTOM, 0, len(axis.values), low, high)
    elements = plot.grid_lines(drawing.round_ticks(low, high, 7))
    for index, value in enumerate(axis.values):
        elements.append(drawing.label(plot.x(index + 0.5), HEIGHT - 24, value_text(value), "middle"))
    elements.append(drawing.label((plot.left + plot.right) / 2, HEIGHT - 4, axis.key, "middle", bold=True))
    for number, (method, title) in enumerate({line.method: line.title for line in lines}.items()):
        style = drawing.line_style(number, dashes="")
        own = [line for line in lines if line.method == method]
        known = [line for line in own if axis.key in line.setting]
        points = [
            (
                plot.x(axis.values.index(line.setting[axis.key]) + 0.5) + 4 * number,
                setting_text(line.setting),
                line.score,
            )
            for line in known
        ]
        if known:
            elements.append(drawing.line([(x, plot.y(score.mean)) for x, _, score in points], style))
            elements += plot.estimates(number, title, points)
        else:  # the method does not have this setting: a level line
            y = plot.y(own[0].score.mean)
            elements.append(drawing.line([(plot.left, y), (plot.right, y)], drawing.line_style(number, "5 4", 1)))
        x, y = plot.right + 12, 24 + 20 * number
        elements += [drawing.line([(x, y), (x + 22, y)], style), drawing.label(x + 28, y + 4, title)]
    return drawing.svg(WIDTH, HEIGHT, f"score against {axis.key}", elements, 12)


def write_sweep(results: Comparison, folder: Path, title: str, score: str = "") -> list[Path]:
    """Writes sweep.csv (tidy: a row per method, setting, seed and agent), .md, .tex, .html and .svg."""
    runs = len(results.table[["method", "seed", *(axis.key for axis in results.axes)]].drop_duplicates())
    about = (
        f"{runs} runs: methods x settings x {seeds_text(results.seeds)}. Scores are means over the agents with good "
        "labels after the last round; ± is a 95 % confidence interval over seeds."
    )
    grids, images, answer = [grid(results, score)], drawings(results, score), sentences(results, score)
    path, question = folder / "sweep", "Which setting is the best?"
    return write_report(
        path, title, about, question, answer, grids, images, results.table, note=STAR, titles=results.titles
    )


def _cell(x: float, y: float, value: Estimate, low: float, high: float) -> str:
    share = (value.mean - low) / (high - low) if high > low else 0.5
    light = 92 - 57 * share
    ink = "#fff" if light < 58 else "#10202e"
    below = "" if np.isnan(value.half_width) else f"± {value.half_width:.3f}"
    middle = x + CELL / 2
    return (
        f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{ROW - 2}" rx="3" fill="hsl(207 62% {light:.0f}%)"/>'
        f'<text x="{middle}" y="{y + (20 if below else 28)}" text-anchor="middle" fill="{ink}" font-weight="600">'
        f'{value.mean:.3f}</text><text x="{middle}" y="{y + 36}" text-anchor="middle" fill="{ink}" font-size="11">'
        f"{below}</text>"
    )


def value_text(value: Any) -> str:
    """A value of an axis."""
    if value is None:
        return "-"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def seeds_text(numbers: Sequence[int]) -> str:
    """Seeds in words.

    >>> seeds_text([0, 1, 2]), seeds_text([3]), seeds_text([1, 5])
    ('seeds 0-2', 'seed 3', 'seeds 1, 5')
    """
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"seeds {numbers[0]}-{numbers[-1]}"
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
