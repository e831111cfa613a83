"""Draws docs/partitions.svg: what each partition deals to ten agents. Run it anywhere: python docs/partitions.py."""

from pathlib import Path

import numpy as np

from consilience.base.files import data_folder
from consilience.core.streams import stream
from consilience.data.datasets import Request
from consilience.data.loading import load
from consilience.data.partitions import PARTITIONS, Deal

AGENTS, CELL, LEFT, TOP, WIDTH, HEIGHT = 10, 17, 30, 46, 250, 268
SHOWN = {
    "iid": ("iid", {}),
    "dirichlet, alpha = 1": ("dirichlet", {"alpha": 1.0}),
    "dirichlet, alpha = 0.1": ("dirichlet", {"alpha": 0.1}),
    "quantity, alpha = 0.5": ("quantity", {"alpha": 0.5}),
    "shards, 2 for each agent": ("shards", {"shards": 2}),
    "feature, alpha = 0.1": ("feature", {"alpha": 0.1}),
}


def drawing() -> str:
    """An SVG with a panel for each partition of the digits: a dot for each agent and class, its area the samples."""
    data = load("digits")
    panels = []
    for number, (title, (name, options)) in enumerate(SHOWN.items()):
        deal = Deal(data.x, data.y, AGENTS, stream(0, "partition"), smallest=20, **options)
        parts = PARTITIONS.find(name)(deal)
        counts = np.array([np.bincount(data.y[part], minlength=10) for part in parts])
        x, y = (number % 3) * WIDTH, (number // 3) * HEIGHT
        panels += [f'<g transform="translate({x} {y})">', *_panel(title, counts), "</g>"]
    width, height = 3 * WIDTH, 2 * HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11" fill="#5b6570">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *panels, "</svg>"]) + "\n"


def natural_drawing(folder: Path) -> str:
    """The same for the heart patients of four hospitals, whose classes are healthy and diseased."""
    data = load("heart-disease", Request(folder))
    groups = data.groups
    assert groups is not None
    deal = Deal(data.x, data.y, 4, stream(0, "partition"), groups=groups)
    counts = [np.bincount(data.y[part], minlength=2) for part in PARTITIONS.find("natural")(deal)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 330 {TOP + CELL * 5}" width="330" '
    parts = [head + f'height="{TOP + CELL * 5}" font-family="sans-serif" font-size="11" fill="#5b6570">']
    parts.append('<rect width="100%" height="100%" fill="#fff"/>')
    parts.append('<text x="90" y="18" font-weight="600" fill="#1c2127">natural: healthy, diseased</text>')
    for agent, row in enumerate(counts):
        y = TOP + CELL * agent
        parts.append(f'<text x="82" y="{y + 4}" text-anchor="end">{data.group_names[agent]}</text>')
        parts.append(f'<text x="{98 + CELL * 2}" y="{y + 4}">{row.sum()}</text>')
        for label, count in enumerate(row):
            radius = (CELL / 2 - 0.5) * np.sqrt(count / np.max(counts))
            parts.append(f'<circle cx="{90 + CELL * (label + 0.5):.1f}" cy="{y}" r="{radius:.1f}" fill="#0072B2"/>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, counts: np.ndarray) -> list[str]:
    parts = [f'<text x="{LEFT}" y="18" font-weight="600" fill="#1c2127">{title}</text>']
    parts += [f'<text x="{LEFT + CELL * 5}" y="{HEIGHT - 30}" text-anchor="middle">class 0 to 9</text>']
    largest = counts.max()
    for agent, row in enumerate(counts):
        y = TOP + CELL * agent
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{agent}</text>')
        parts.append(f'<text x="{LEFT + CELL * 10 + 2}" y="{y + 4}">{row.sum()}</text>')
        for label, count in enumerate(row):
            radius = (CELL / 2 - 0.5) * np.sqrt(count / largest)
            if count:
                x = LEFT + CELL * (label + 0.5)
                parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="{radius:.1f}" fill="#0072B2"/>')
    return parts


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "partitions.svg").write_text(drawing())
    if real := data_folder():
        (here / "partitions-natural.svg").write_text(natural_drawing(real))
