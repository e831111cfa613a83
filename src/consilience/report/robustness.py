"""Robustness of trust rules to attackers: tables, a drawing and a page that opens offline."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from consilience.experiments.robustness import NOBODY, Robustness, RobustnessLine, summarise, verdicts
from consilience.report import drawing
from consilience.report.results_page import write_report
from consilience.report.tables import Grid

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 250, 190, 42, 12, 26, 30
"""Measures of a panel, in pixels."""
NARROWEST = 340
"""So that the names of the axes fit, in pixels."""
PANELS_PER_ROW = 4
ALONE_STYLE = 'stroke="#888" stroke-width="1.5" stroke-dasharray="1 3"'
ABOUT = (
    "Attackers train as the others do. In every exchange they see the predictions of all honest agents before they "
    "send theirs, and may collude. Scores are means over the honest agents with good labels, after the last round; "
    "intervals are 95 % over seeds. A rule fails where the honest end clearly below what the same agents reach alone."
)


def score_grid(results: Robustness, short: bool = False) -> Grid:
    """Mean over seeds and its 95 % interval, one column per rule; the first line is without attackers.

    In `short` without the interval, which a screen has no room for with many rules.
    """
    where, seeds = _score_name(results), len(results.seeds)
    title = f"{where[0].upper()}{where[1:]} of the honest on the target domain, {seeds} seed{'s' * (seeds > 1)}"
    if short:
        return _grid(results, title, lambda line: f"{line.score.mean:.3f}", alone=True)
    return _grid(results, f"{title}; ± 95 %", lambda line: line.score.text(), alone=True)


def worst_grid(results: Robustness) -> Grid:
    """The score of the worst seed, one column per rule."""
    return _grid(results, "The worst seed", lambda line: f"{line.worst:.3f}")


def class_grid(results: Robustness) -> Grid | None:
    """Accuracy on the class that targeted attacks are about; None without such an attack."""
    grid = _grid(
        results,
        "Accuracy of the honest on the attacked class; ± 95 %",
        lambda line: line.attacked_class.text() if line.attacked_class else "",
    )
    rows = [row for row in grid.rows if any(row[2:])]
    return Grid(grid.title, grid.headings, rows, words=2) if len(rows) > 1 else None


def draw(results: Robustness) -> str:
    """An SVG: one panel per attack, the score against the number of attackers, one line per rule.

    The dotted grey line is what the same agents reach alone.
    """
    lines = summarise(results)
    columns = min(PANELS_PER_ROW, max(1, len(results.attacks)))
    legend = 22 * -(-(len(results.rules) + 1) // columns) + 38
    elements = []
    styles = {rule: drawing.line_style(index) for index, rule in enumerate(results.rules)} | {"alone": ALONE_STYLE}
    for index, (name, style) in enumerate(styles.items()):
        x, y = (index % columns) * WIDTH + LEFT, 14 + 22 * (index // columns)
        elements += [drawing.line([(x, y), (x + 26, y)], style), drawing.label(x + 32, y + 4, name)]
    across = f"Across: attackers among {results.agents} agents."
    up = f"Up: {_score_name(results)} of the honest, ± 95 % over seeds."
    elements += [drawing.label(LEFT, legend - 22, across), drawing.label(LEFT, legend - 6, up)]
    for index, attack in enumerate(results.attacks):
        x, y = (index % columns) * WIDTH, legend + (index // columns) * HEIGHT
        elements += [f'<g transform="translate({x} {y})">', *_panel(results, lines, attack), "</g>"]
    height = legend + -(-len(results.attacks) // columns) * HEIGHT
    return drawing.svg(
        max(columns * WIDTH, NARROWEST), height, "accuracy of the honest against the number of attackers", elements
    )


def write_robustness(results: Robustness, folder: Path, title: str) -> list[Path]:
    """Writes robustness.csv, .md, .tex, .html and .svg; returns their paths."""
    scores = score_grid(results)
    grids = [grid for grid in (scores, worst_grid(results), class_grid(results)) if grid is not None]
    images = {"Score of the honest against the number of attackers": draw(results)}
    question = "Where does each rule fail?"
    path = folder / "robustness"
    answer = [*_winner(results, scores), *verdicts(results)]
    return write_report(path, title, ABOUT, question, answer, grids, images, results.table)


def _winner(results: Robustness, scores: Grid) -> list[str]:
    """Which rule leaves the honest best off, and in how many cases; nothing with a single rule."""
    attacked = [results.rules[column - 3] for row, column in scores.best if row > 0]
    if not attacked:
        return []
    best = max(results.rules, key=attacked.count)
    return [f"{best} leaves the honest best off in {attacked.count(best)} of {len(attacked)} cases with attackers."]


def _score_name(results: Robustness) -> str:
    return results.score.rpartition("_")[0].replace("_", " ")


def _grid(results: Robustness, title: str, cell: Callable[[RobustnessLine], str], alone: bool = False) -> Grid:
    """One row per attack and number of attackers, one column per rule."""
    lines = {(line.rule, line.attack, line.attackers): line for line in summarise(results)}
    keys = [(NOBODY, 0), *((attack, count) for attack in results.attacks for count in results.counts)]
    rows, best = list[tuple[str, ...]](), set[tuple[int, int]]()
    sign = 1 if results.higher_is_better else -1
    for attack, count in keys:
        first = (f"{_alone(results, attack, count):.3f}",) if alone else ()
        cells = tuple(cell(lines[rule, attack, count]) for rule in results.rules)
        if alone and len(cells) > 1:
            means = [sign * lines[rule, attack, count].score.mean for rule in results.rules]
            best.add((len(rows), 3 + means.index(max(means))))
        rows.append(("-" if attack == NOBODY else attack, f"{count} of {results.agents}", *first, *cells))
    headings = ("attack", "attackers", *(("alone",) if alone else ()), *results.rules)
    return Grid(title, headings, rows, words=2, best=frozenset(best))


def _alone(results: Robustness, attack: str, count: int) -> float:
    """The score that the agents which are honest here reach alone."""
    rows = results.table[(results.table["attack"] == attack) & (results.table["attackers"] == count)]
    return float(rows["alone"].mean())


def _range(lines: Sequence[RobustnessLine], results: Robustness) -> tuple[float, float]:
    """The scores that panels show, in whole twentieths. Longer intervals end at the edge."""
    means = [line.score.mean for line in lines]
    means += [float(value) for value in results.table.groupby("attackers")["alone"].mean()]
    return float(np.floor(min(means) * 20 - 0.2) / 20), float(np.ceil(max(means) * 20 + 0.2) / 20)


def _panel(results: Robustness, lines: Sequence[RobustnessLine], attack: str) -> list[str]:
    counts, (low, high) = [0, *results.counts], _range(lines, results)
    plot = drawing.Plot(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, 0, max(counts) or 1, low, high)
    elements = [drawing.label(LEFT, 16, attack, bold=True)]
    elements += plot.grid_lines(drawing.round_ticks(low, high, 6, least=0.05))
    elements += [drawing.label(plot.x(count), HEIGHT - 12, f"{count}", "middle") for count in counts]
    alone = [(plot.x(count), plot.y(_alone(results, attack if count else NOBODY, count))) for count in counts]
    elements.append(drawing.line(alone, ALONE_STYLE))
    for index, rule in enumerate(results.rules):
        own = [line for line in lines if line.rule == rule and line.attack in (attack, NOBODY)]
        shift = 3 * (index - (len(results.rules) - 1) / 2)  # so that intervals of rules do not cover each other
        points = [(plot.x(line.attackers) + shift, f"{line.attackers} attackers", line.score) for line in own]
        elements.append(drawing.line([(x, plot.y(score.mean)) for x, _, score in points], drawing.line_style(index)))
        elements += plot.estimates(index, rule, points)
    return elements
