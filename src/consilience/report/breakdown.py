"""A breakdown as tables, as a drawing and as one page that opens offline."""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import numpy as np

from consilience.base.files import write_atomically
from consilience.experiments.breakdown import NOBODY, Breakdown, RobustnessLine, summarise, verdicts
from consilience.experiments.compare import Estimate
from consilience.report import html as shell
from consilience.report.tables import Grid

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "currentColor")
"""Told apart by the colour-blind, too (Okabe and Ito, Color universal design, 2008)."""
DASHES = ("", "6 3", "2 2", "8 3 2 3")
WIDTH, HEIGHT = 250, 190
"""Of a panel."""
LEFT, RIGHT, TOP, BOTTOM = 42, 12, 26, 30
ACROSS = 4
ABOUT = (
    "Attackers train as the others do. In every exchange they see what all honest agents say before they speak, and "
    "they may agree with each other. Scores are means over the honest agents with good labels, after the last round; "
    "intervals are 95 % over seeds. A rule fails where the honest end clearly below what the same agents reach alone."
)


def score_grid(found: Breakdown, short: bool = False) -> Grid:
    """Mean over seeds and its 95 % interval, one column per rule; the first line is without attackers.

    In `short` without the interval, which a screen has no room for with many rules.
    """
    where, seeds = _score_name(found), len(found.seeds)
    title = f"{where[0].upper()}{where[1:]} of the honest on the target domain, {seeds} seed{'s' * (seeds > 1)}"
    if short:
        return _grid(found, title, lambda line: f"{line.score.mean:.3f}", alone=True)
    return _grid(found, f"{title}; ± 95 %", lambda line: interval(line.score), alone=True)


def worst_grid(found: Breakdown) -> Grid:
    """The worst seed, one column per rule."""
    return _grid(found, "The worst seed", lambda line: f"{line.worst:.3f}")


def class_grid(found: Breakdown) -> Grid | None:
    """Accuracy on the class that targeted attacks are about; None where there was no such attack."""
    grid = _grid(
        found,
        "Accuracy of the honest on the attacked class; ± 95 %",
        lambda line: interval(line.attacked_class) if line.attacked_class else "",
    )
    rows = [row for row in grid.rows if any(row[2:])]
    return Grid(grid.title, grid.headings, rows, words=2) if len(rows) > 1 else None


def interval(value: Estimate, signed: bool = False) -> str:
    """A mean with its interval, if there is one."""
    return f"{value.mean:{'+' if signed else ''}.3f}" + (
        "" if np.isnan(value.half_width) else f" ± {value.half_width:.3f}"
    )


def markdown(found: Breakdown, title: str) -> str:
    """Tables and sentences as Markdown."""
    parts = [f"# {title}"]
    for grid in (score_grid(found), worst_grid(found), class_grid(found)):
        if grid is not None:
            parts.append(f"{grid.title}:\n\n{grid.markdown()}".rstrip())
    parts.append("\n".join(f"- {sentence}" for sentence in verdicts(found)))
    return "\n\n".join(parts) + "\n"


def drawing(found: Breakdown) -> str:
    """An SVG: one panel per attack, the score against the number of attackers, one line per rule.

    The dotted grey line is what the same agents reach alone. Needs nothing to be drawn with.
    """
    lines = summarise(found)
    low, high = _range(lines, found)
    across = min(ACROSS, max(1, len(found.attacks)))
    down = -(-len(found.attacks) // across)
    legend = 22 * -(-(len(found.rules) + 1) // across) + 22
    width, height = across * WIDTH, legend + down * HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="currentColor" role="img" '
        f'aria-label="accuracy of the honest against the number of attackers">'
    ]
    for number, name in enumerate([*found.rules, "alone"]):
        x, y = (number % across) * WIDTH + LEFT, 14 + 22 * (number // across)
        parts.append(f'<path d="M{x} {y}h26" {_look(number if name != "alone" else -1)}/>')
        parts.append(f'<text x="{x + 32}" y="{y + 4}">{escape(name)}</text>')
    axes = f"Across: attackers among {found.agents} agents. Up: {_score_name(found)} of the honest, ± 95 % over seeds."
    parts.append(f'<text x="{LEFT}" y="{legend - 6}">{escape(axes)}</text>')
    for number, attack in enumerate(found.attacks):
        x, y = (number % across) * WIDTH, legend + (number // across) * HEIGHT
        parts += [f'<g transform="translate({x} {y})">', *_panel(found, lines, attack, low, high), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def write_breakdown(found: Breakdown, folder: Path, title: str) -> list[Path]:
    """Writes breakdown.csv, breakdown.md, breakdown.svg and breakdown.html; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    image = drawing(found)
    grids = [grid for grid in (score_grid(found), worst_grid(found), class_grid(found)) if grid is not None]
    parts = [f"<p>{escape(ABOUT)}</p>", "<h2>Where does each rule fail?</h2>", shell.bullets(verdicts(found))]
    parts += ["<h2>Score of the honest against the number of attackers</h2>", shell.scrolled(image, "scores drawn")]
    parts += ["<h2>The numbers</h2>", *map(shell.table, grids)]
    page = shell.page(title, parts)
    texts = {
        "breakdown.csv": found.table.to_csv(index=False),
        "breakdown.md": markdown(found, title),
        "breakdown.svg": image,
        "breakdown.html": page,
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return [folder / name for name in texts]


def _score_name(found: Breakdown) -> str:
    return found.score.rpartition("_")[0].replace("_", " ")


def _grid(found: Breakdown, title: str, cell: Callable[[RobustnessLine], str], alone: bool = False) -> Grid:
    """One row per attack and number of attackers, one column per rule."""
    lines = {(line.rule, line.attack, line.attackers): line for line in summarise(found)}
    keys = [(NOBODY, 0), *((attack, count) for attack in found.attacks for count in found.counts)]
    rows = []
    for attack, count in keys:
        first = (f"{_alone(found, attack, count):.3f}",) if alone else ()
        cells = tuple(cell(lines[rule, attack, count]) for rule in found.rules)
        rows.append(("-" if attack == NOBODY else attack, f"{count} of {found.agents}", *first, *cells))
    headings = ("attack", "attackers", *(("alone",) if alone else ()), *found.rules)
    return Grid(title, headings, rows, words=2)


def _alone(found: Breakdown, attack: str, count: int) -> float:
    """What the agents that are honest here reach alone."""
    rows = found.table[(found.table["attack"] == attack) & (found.table["attackers"] == count)]
    return float(rows["alone"].mean())


def _range(lines: Sequence[RobustnessLine], found: Breakdown) -> tuple[float, float]:
    """The scores that panels show, in whole twentieths. Intervals that are longer than that end at the edge."""
    means = [line.score.mean for line in lines]
    means += [float(value) for value in found.table.groupby("attackers")["alone"].mean()]
    low, high = float(np.floor(min(means) * 20 - 0.2) / 20), float(np.ceil(max(means) * 20 + 0.2) / 20)
    return low, high


def _panel(found: Breakdown, lines: Sequence[RobustnessLine], attack: str, low: float, high: float) -> list[str]:
    counts = [0, *found.counts]
    most = max(counts) or 1

    def across(count: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * count / most

    def up(score: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (score - low) / (high - low)

    parts = [f'<text x="{LEFT}" y="16" font-weight="600">{escape(attack)}</text>']
    step = next(size for size in (0.05, 0.1, 0.2, 0.5, 1, 10, 100, np.inf) if (high - low) / size <= 6)
    for tick in np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step:
        parts.append(f'<path d="M{LEFT} {up(tick):.1f}H{WIDTH - RIGHT}" stroke="#8884" fill="none"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:.2f}</text>')
    for count in counts:
        parts.append(f'<text x="{across(count):.1f}" y="{HEIGHT - 12}" text-anchor="middle">{count}</text>')
    alone = [(across(c), up(_alone(found, attack if c else NOBODY, c))) for c in counts]
    parts.append(f'<path d="{_path(alone)}" {_look(-1)}/>')
    for number, rule in enumerate(found.rules):
        known = [line for line in lines if line.rule == rule and line.attack in (attack, NOBODY)]
        shift = 3 * (number - (len(found.rules) - 1) / 2)  # so that intervals of rules do not cover each other
        points = [(across(line.attackers) + shift, up(line.score.mean)) for line in known]
        parts.append(f'<path d="{_path(points)}" {_look(number)}/>')
        for (x, y), line in zip(points, known, strict=True):
            half = float(np.nan_to_num(line.score.half_width)) * (HEIGHT - TOP - BOTTOM) / (high - low)
            upper, lower = max(y - half, TOP), min(y + half, HEIGHT - BOTTOM)
            tip = escape(f"{rule}, {line.attackers} attackers: {interval(line.score)}")
            colour = COLOURS[number % len(COLOURS)]
            parts.append(f'<path d="M{x:.1f} {upper:.1f}V{lower:.1f}" stroke="{colour}" fill="none"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{tip}</title></circle>')
    return parts


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _look(number: int) -> str:
    """Colour and dashes of a rule's line; -1 for that of agents alone."""
    if number < 0:
        return 'stroke="#888" stroke-width="1.5" stroke-dasharray="1 3" fill="none"'
    dashes = DASHES[number % len(DASHES)]
    return f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="1.8" stroke-dasharray="{dashes}" fill="none"'
