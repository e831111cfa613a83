"""A sweep as a table, sentences, drawings, and one page that opens offline."""

from collections.abc import Sequence
from html import escape
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.files import write_atomically
from consilience.experiments.compare import Estimate
from consilience.experiments.sweep import Axis, Choice, Sweep, SweepLine, choose, setting_text, summarise
from consilience.report import html as shell
from consilience.report.breakdown import COLOURS, interval
from consilience.report.tables import Grid

CELL, ROW, LEFT, TOP = 96, 46, 90, 54
"""Of a heat map."""
WIDTH, HEIGHT, BOTTOM, RIGHT = 620, 300, 44, 150
"""Of curves."""
STAR = "* chosen on the first half of the seeds."


def grid(found: Sweep, score: str = "") -> Grid:
    """Every method and setting with its mean and 95 % interval, the best of each method marked by a star."""
    lines, column = summarise(found, score), score or found.default_score
    chosen = [(choice.method, choice.given | choice.setting) for choice in choose(found, score)]
    gains = any(not np.isnan(line.gain.mean) for line in lines)
    rows = []
    for line in lines:
        values = tuple(value_text(line.setting.get(axis.key)) for axis in found.axes)
        star = "*" if (line.method, line.setting) in chosen else ""
        gain = ("" if np.isnan(line.gain.mean) else interval(line.gain, signed=True),) if gains else ()
        rows.append((line.method + star, *values, interval(line.score), f"{line.worst:.3f}", *gain))
    title = f"{column}, mean over agents with good labels and {len(found.seeds)} seeds; ± 95 % interval"
    headings = ("method", *(axis.key for axis in found.axes), "mean", "worst agent", *["gain over alone"] * gains)
    return Grid(title, headings, rows, words=1)


def sentences(found: Sweep, score: str = "") -> list[str]:
    """Which setting was chosen on which seeds, and what it is worth on the others."""
    choices = choose(found, score)
    if not choices:
        alone = "with a single seed" if len(found.seeds) < 2 else "with a single setting of each method"
        return [f"No setting was chosen: {alone} there is nothing to choose by that is not also measured."]
    return [choice_sentence(choice) for choice in choices]


def choice_sentence(choice: Choice) -> str:
    """What was chosen, on which seeds, and what it is worth on the others."""
    given = f" with {setting_text(choice.given)}" if choice.given else ""
    return (
        f"{choice.method}{given}: {setting_text(choice.setting)} is the best on {seeds_text(choice.tuning)} "
        f"({interval(choice.on_tuning)}); on {seeds_text(choice.held_out)}, which had no part in the "
        f"choice, it reaches {interval(choice.on_held_out)}."
    )


def drawings(found: Sweep, score: str = "") -> dict[str, str]:
    """SVGs by title: curves for one axis; for more, a heat map for each method and value of the further axes.

    Where one axis is given and others are chosen, first the curves of what was chosen, on the seeds that chose nothing.
    """
    lines = summarise(found, score)
    if len(found.axes) == 1:
        return {f"Score against {found.axes[0].key}": curves(found.axes[0], lines)}
    images = {}
    given, nothing = [axis for axis in found.axes if axis.key in found.given], Estimate(np.nan, np.nan)
    best = [SweepLine(c.method, c.given, c.on_held_out, np.nan, nothing) for c in choose(found, score)]
    if len(given) == 1 and best:
        others = ", ".join(axis.key for axis in found.axes if axis is not given[0])
        images[f"Score against {given[0].key}, each with its best {others}"] = curves(given[0], best)
    first, second, *rest = found.axes
    shown = [line for line in lines if first.key in line.setting and second.key in line.setting]
    means = [line.score.mean for line in shown] or [0.0, 1.0]
    low, high = min(means), max(means)
    for method in found.methods:
        own = [line for line in lines if line.method == method]
        if own[0].setting.keys() < {first.key, second.key}:
            axes = [axis for axis in (first, second) if axis.key in own[0].setting]
            if axes and len(own) > 1:
                images[f"{method}: score against {axes[0].key}"] = curves(axes[0], own)
            continue
        for values in product(*(axis.values for axis in rest if axis.key in own[0].setting)):
            held = dict(zip((axis.key for axis in rest), values, strict=True))
            part = [line for line in own if held.items() <= line.setting.items()]
            title = f"{method}, {setting_text(held)}" if held else method
            images[title] = heat_map(first, second, part, low, high)
    return images


def heat_map(down: Axis, across: Axis, lines: Sequence[SweepLine], low: float, high: float) -> str:
    """A cell for every pair of values: the mean, its interval below it, and the stronger the colour the higher."""
    width, height = LEFT + CELL * len(across.values) + 8, TOP + ROW * len(down.values) + 8
    parts = [opened(width, height, f"score by {down.key} and {across.key}")]
    parts.append(label(LEFT + CELL * len(across.values) / 2, 16, across.key, "middle", "600"))
    parts.append(label(4, TOP - 10, down.key, "start", "600"))
    for place, value in enumerate(across.values):
        parts.append(label(LEFT + CELL * (place + 0.5), TOP - 10, value_text(value), "middle"))
    for row, value in enumerate(down.values):
        parts.append(label(LEFT - 8, TOP + ROW * (row + 0.5) + 4, value_text(value), "end"))
        for place, other in enumerate(across.values):
            wanted = {down.key: value, across.key: other}
            for line in lines:
                if wanted.items() <= line.setting.items():
                    parts.append(_cell(LEFT + CELL * place, TOP + ROW * row, line.score, low, high))
    return "\n".join([*parts, "</svg>"]) + "\n"


def curves(axis: Axis, lines: Sequence[SweepLine]) -> str:
    """The score against the values of one axis, a line for each method with bars for the intervals."""
    methods = list(dict.fromkeys(line.method for line in lines))
    ends = [line.score.mean + sign * float(np.nan_to_num(line.score.half_width)) for line in lines for sign in (-1, 1)]
    low, high = float(np.floor(min(ends) * 20) / 20), float(np.ceil(max(ends) * 20) / 20)
    high = high if high > low else low + 0.05

    def right(place: int) -> float:
        return 50 + (WIDTH - 50 - RIGHT) * (place + 0.5) / len(axis.values)

    def up(score: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * (score - low) / (high - low)

    parts = [opened(WIDTH, HEIGHT, f"score against {axis.key}")]
    step = next(size for size in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 10, 100, np.inf) if (high - low) / size <= 7)
    for tick in np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step:
        parts.append(f'<path d="M50 {up(tick):.1f}H{WIDTH - RIGHT}" stroke="#8884" fill="none"/>')
        parts.append(label(44, up(tick) + 4, f"{tick:.2f}", "end"))
    for place, value in enumerate(axis.values):
        parts.append(label(right(place), HEIGHT - 24, value_text(value), "middle"))
    parts.append(label((50 + WIDTH - RIGHT) / 2, HEIGHT - 4, axis.key, "middle", "600"))
    for number, method in enumerate(methods):
        colour = COLOURS[number % len(COLOURS)]
        own = [line for line in lines if line.method == method]
        places = [axis.values.index(line.setting[axis.key]) if axis.key in line.setting else None for line in own]
        if places == [None]:  # the method does not have this setting: a level line
            y = up(own[0].score.mean)
            parts.append(
                f'<path d="M50 {y:.1f}H{WIDTH - RIGHT}" stroke="{colour}" stroke-dasharray="5 4" fill="none"/>'
            )
        else:
            placed = zip(places, own, strict=True)
            at = [(right(p) + 4 * number, up(line.score.mean), line) for p, line in placed if p is not None]
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in at)
            parts.append(f'<path d="{path}" stroke="{colour}" stroke-width="1.8" fill="none"/>')
            for x, y, line in at:
                half = float(np.nan_to_num(line.score.half_width)) * (HEIGHT - BOTTOM - 20) / (high - low)
                tip = escape(f"{method}, {setting_text(line.setting)}: {interval(line.score)}")
                parts.append(f'<path d="M{x:.1f} {y - half:.1f}V{y + half:.1f}" stroke="{colour}" fill="none"/>')
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"><title>{tip}</title></circle>')
        y = 24 + 20 * number
        parts.append(f'<path d="M{WIDTH - RIGHT + 12} {y}h22" stroke="{colour}" stroke-width="1.8" fill="none"/>')
        parts.append(label(WIDTH - RIGHT + 40, y + 4, method, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def write_sweep(found: Sweep, folder: Path, title: str, score: str = "") -> list[Path]:
    """Writes sweep.csv (tidy: a row per method, setting, seed and agent), .md, .html and the first drawing as .svg."""
    table, words, images = grid(found, score), sentences(found, score), drawings(found, score)
    note = (
        f"{len(found.table[['method', 'seed', *(a.key for a in found.axes)]].drop_duplicates())} runs: methods x "
        f"settings x {seeds_text(found.seeds)}. Scores are means over the agents with good labels after "
        "the last round; ± is a 95 % confidence interval over seeds."
    )
    parts = [f"<p>{escape(note)}</p>", "<h2>Which setting is the best?</h2>", shell.bullets(words)]
    for name, image in images.items():
        parts += [f"<h2>{escape(name)}</h2>", shell.scrolled(image, name)]
    parts += ["<h2>The numbers</h2>", shell.table(table), f"<p>{STAR}</p>"]
    listed = "\n".join(f"- {sentence}" for sentence in words)
    texts = {
        "sweep.csv": found.table.to_csv(index=False),
        "sweep.md": f"# {title}\n\n{listed}\n\n{table.title}:\n\n{table.markdown()}\n\\{STAR}\n",
        "sweep.html": shell.page(title, parts),
        "sweep.svg": next(iter(images.values())),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode())
    return [folder / name for name in texts]


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


def opened(width: float, height: float, about: str) -> str:
    """The beginning of an SVG, with what is read aloud of it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12" fill="currentColor" role="img" aria-label="{escape(about)}">'
    )


def label(x: float, y: float, words: str, anchor: str, weight: str = "400") -> str:
    """Words in a drawing."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'


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
