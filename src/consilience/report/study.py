"""A study as a table, a sentence, drawings, and one page that opens offline."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.files import write_atomically
from consilience.experiments.study import Study, is_range
from consilience.experiments.sweep import setting_text
from consilience.report import html as shell
from consilience.report.breakdown import COLOURS
from consilience.report.numbers import number
from consilience.report.sweep import choice_sentence, label, opened, seeds_text, value_text
from consilience.report.tables import Grid

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 230, 50, 14, 16, 44
"""Of a drawing."""
STAR = "* the trial that was chosen."


def grid(found: Study, most: int | None = None) -> Grid:
    """Every trial, or so many of them, the best first, the chosen one marked by a star."""
    order = found.table.sort_values(found.score, ascending=not found.higher_is_better, kind="stable")
    rows = []
    for _, row in order.head(most or len(order)).iterrows():
        star = "*" if row["trial"] == found.best else ""
        values = (value_text(row[axis.key]) for axis in found.axes)
        rows.append((f"{int(row['trial']) + 1}{star}", *values, number(row[found.score])))
    title = f"{found.score}, mean over agents with good labels and {seeds_text(found.choice.tuning)}"
    return Grid(title, ("trial", *(axis.key for axis in found.axes), "mean"), rows, words=1)


def drawings(found: Study) -> dict[str, str]:
    """SVGs by title: the score of every trial, and for each setting the score against its value."""
    scores = found.table[found.score].to_list()
    best = np.maximum.accumulate(scores) if found.higher_is_better else np.minimum.accumulate(scores)
    trials = list(range(1, len(scores) + 1))
    images = {"Trial by trial": _dots("trial", trials, trials, scores, found.best, best.tolist())}
    for axis in found.axes:
        values = found.table[axis.key].to_list()
        span = axis.values if is_range(axis) else [value_text(value) for value in axis.values]
        images[f"Score against {axis.key}"] = _dots(axis.key, span, values, scores, found.best)
    return images


def write_study(found: Study, folder: Path, title: str) -> list[Path]:
    """Writes study.csv (a row per trial), .md, .html and the first drawing as .svg."""
    table, words, images = grid(found), choice_sentence(found.choice), drawings(found)
    note = (
        f"{len(found.table)} trials, proposed one after another by Optuna and scored on "
        f"{seeds_text(found.choice.tuning)}. Every dot is a trial; the filled one is the best. "
        "The line is the best score so far."
    )
    parts = [f"<p>{escape(note)}</p>", "<h2>Which setting is the best?</h2>", shell.bullets([words])]
    parts.append('<div class="panels">')
    parts += [f"<div><h3>{escape(name)}</h3>{image}</div>" for name, image in images.items()]
    parts += ["</div>", "<h2>The trials</h2>", shell.table(table), f"<p>{STAR}</p>"]
    texts = {
        "study.csv": found.table.to_csv(index=False),
        "study.md": f"# {title}\n\n- {words}\n\n{table.title}:\n\n{table.markdown()}\n\\{STAR}\n",
        "study.html": shell.page(title, parts),
        "study.svg": next(iter(images.values())),
    }
    for name, content in texts.items():
        write_atomically(folder / name, content.encode())
    return [folder / name for name in texts]


def _dots(
    key: str, span: Sequence[Any], values: Sequence[Any], scores: Sequence[float], best: int, line: Sequence[float] = ()
) -> str:
    """A dot for each trial: its score against a value, with the same place for equal words."""
    low, high = min(scores), max(scores)
    room = (high - low) * 0.08 or 0.05
    low, high = low - room, high + room
    words = isinstance(span[0], str)
    first, last = (0.0, 1.0) if words else (float(min(span)), float(max(span)))
    wide = not words and first > 0 and last / first > 10 and not line

    def across(value: Any) -> float:
        if words:
            part = (span.index(value_text(value)) + 0.5) / len(span)
        elif wide:
            part = float(np.log(float(value) / first) / np.log(last / first))
        else:
            part = (float(value) - first) / ((last - first) or 1)
        return LEFT + 8 + part * (WIDTH - LEFT - RIGHT - 16)

    def up(score: float) -> float:
        return HEIGHT - BOTTOM - (score - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [opened(WIDTH, HEIGHT, f"score against {key}")]
    for tick in np.linspace(low + room, high - room, 4):
        parts.append(f'<path d="M{LEFT} {up(tick):.1f}H{WIDTH - RIGHT}" stroke="#8884" fill="none"/>')
        parts.append(label(LEFT - 6, up(tick) + 4, number(float(tick)), "end"))
    middle = float(np.sqrt(first * last)) if wide else (first + last) / 2
    if not words and isinstance(span[0], int):
        middle = round(middle)
    for value in span if words else [first, middle, last]:
        parts.append(label(across(value), HEIGHT - BOTTOM + 18, str(value) if words else f"{value:.3g}", "middle"))
    parts.append(
        label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, f"{key} (logarithmic)" if wide else key, "middle", "600")
    )
    if line:
        path = "L".join(f"{across(v):.1f} {up(score):.1f}" for v, score in zip(values, line, strict=True))
        parts.append(f'<path d="M{path}" stroke="{COLOURS[1]}" stroke-width="1.8" fill="none"/>')
    for place, (value, score) in enumerate(zip(values, scores, strict=True)):
        look = f'fill="{COLOURS[0]}"' if place == best else f'fill="none" stroke="{COLOURS[0]}" stroke-width="1.5"'
        tip = escape(f"trial {place + 1}" + ("" if key == "trial" else f", {setting_text({key: value})}"))
        parts.append(
            f'<circle cx="{across(value):.1f}" cy="{up(score):.1f}" r="{5 if place == best else 4}" {look}>'
            f"<title>{tip}: {number(score)}</title></circle>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
