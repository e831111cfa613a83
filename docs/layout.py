"""Draws docs/layout.svg, the packages of consilience and what they import, from the imports themselves.

python docs/layout.py
"""

import ast
from html import escape
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten

import grimp

PICTURE = Path(__file__).with_suffix(".svg")
WIDTH, HEIGHT, GAP, LANE, MARGIN = 620, 36, 26, 16, 10
"""Of a row; of a box; between boxes; between arrows that run beside the boxes; around the drawing."""
STYLE = """
  .box { fill: #e3edfa; stroke: #5b7fb0; }
  .arrow { fill: none; stroke: #8490a0; stroke-width: 1.5; marker-end: url(#head); }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1c2733; }
  .name { font-weight: 600; font-size: 15px; }
  .note { fill: #8490a0; }
"""
Imports = dict[str, set[str]]


def imports() -> Imports:
    """The packages of consilience, and those that each imports. Single files that others import are one entry."""
    graph = grimp.build_graph("consilience", cache_dir=None)
    modules = sorted(graph.find_children("consilience") - {"consilience.__main__"})
    direct = {
        one: {
            other
            for other in modules
            if other != one and graph.direct_import_exists(importer=one, imported=other, as_packages=True)
        }
        for one in modules
    }
    imported = set().union(*direct.values())
    single = [name for name in modules if name in imported and not graph.find_children(name)]
    label = {name: _short(name) for name in modules} | dict.fromkeys(single, ", ".join(map(_short, single)))
    found: Imports = {label[name]: set() for name in modules}
    for name, others in direct.items():
        found[label[name]] |= {label[other] for other in others} - {label[name]}
    return found


def rows(found: Imports) -> list[list[str]]:
    """Names from the top down: each as low as what it imports allows, and what nobody imports at the top.

    In a row what is imported from far above stands to the right, and others below those that import them.
    """

    def height(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise SystemExit(f"the imports go round in a circle: {' -> '.join([*above, name])}")
        return 1 + max((height(other, (*above, name)) for other in found[name]), default=0)

    heights = {name: height(name) for name in found}
    imported = set().union(*found.values())
    top = max(heights.values())
    heights = {name: own if name in imported else top for name, own in heights.items()}
    from_far = {other for name, other in arrows(found) if heights[name] - heights[other] > 1}
    place: dict[str, float] = {}
    levels = []
    for level in range(top, 0, -1):
        names = [name for name in found if heights[name] == level]
        importers = {name: [place[one] for one, other in arrows(found) if other == name] for name in names}
        middle = {name: sum(places) / max(1, len(places)) for name, places in importers.items()}
        levels.append(sorted(names, key=lambda name, middle=middle: (name in from_far, middle[name], name)))
        place |= {name: number for number, name in enumerate(levels[-1])}
    return levels


def arrows(found: Imports) -> list[tuple[str, str]]:
    """Imports that do not follow from others."""

    def reached(name: str) -> set[str]:
        return found[name].union(*(reached(other) for other in found[name]))

    indirect = {name: set().union(*(reached(other) for other in found[name])) for name in found}
    return [(name, other) for name in found for other in sorted(found[name] - indirect[name])]


def drawing(found: Imports) -> str:
    """The SVG: boxes on top of each other, arrows that point down, those past a row beside the boxes."""
    levels = rows(found)
    row = {name: number for number, names in enumerate(levels) for name in names}
    far = [(name, other) for name, other in arrows(found) if row[other] - row[name] > 1]
    left = [(name, other) for name, other in far if len(levels[row[name]]) > 1 and levels[row[name]][0] == name]
    right = [arrow for arrow in far if arrow not in left]
    begin = MARGIN + LANE * len(left)
    place: dict[str, tuple[float, float, float]] = {}
    for number, names in enumerate(levels):
        width = (WIDTH - GAP * (len(names) - 1)) / len(names)
        for position, name in enumerate(names):
            place[name] = begin + position * (width + GAP), MARGIN + number * (HEIGHT + GAP), width
    parts = []
    for name, other in arrows(found):
        (x, y, width), (to_x, to_y, to_width) = place[name], place[other]
        if (name, other) in left:
            path = _beside(x, y, to_x, to_y, begin, -1, left.index((name, other)))
        elif (name, other) in right:
            path = _beside(x + width, y, to_x + to_width, to_y, begin + WIDTH, 1, right.index((name, other)))
        else:
            path = _down(x, x + width, y, to_x, to_x + to_width, to_y)
        parts.append(f'<path class="arrow" d="{path}"/>')
    parts += [_box(name, *place[name]) for name in found]
    height = 2 * MARGIN + len(levels) * (HEIGHT + GAP)
    note = "An arrow leads to what a package imports. Arrows that follow from others are left out."
    parts.append(f'<text class="note" x="{begin:g}" y="{height - MARGIN:g}">{note}</text>')
    total = begin + WIDTH + LANE * len(right) + MARGIN
    head = '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head += '<path d="M0 0L8 4L0 8z" fill="#8490a0"/></marker>'
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:g} {height:g}" width="{total:g}" role="img">'
    )
    title = "<title>The packages of consilience: imports point down only</title>"
    return "\n".join([opening, title, f"<defs>{head}</defs>", f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def _down(x: float, x_end: float, y: float, to_x: float, to_end: float, to_y: float) -> str:
    """An arrow from a box to one in the next row: straight, or with a step where it stands beside."""
    first, last = max(x, to_x), min(x_end, to_end)
    if first < last:
        return f"M{(first + last) / 2:g} {y + HEIGHT:g}V{to_y - 2:g}"
    start, end = (x + 3 * LANE, to_end - 3 * LANE) if to_end < x else (x_end - 3 * LANE, to_x + 3 * LANE)
    return f"M{start:g} {y + HEIGHT:g}v{GAP / 3:g}H{end:g}V{to_y - 2:g}"


def _beside(x: float, y: float, to_x: float, to_y: float, edge: float, side: int, number: int) -> str:
    """An arrow from near the corner x of one box to that of another, in a lane beside all boxes."""
    turn = 8 + 3 * (number % 3)
    path = f"M{x - side * LANE:g} {y + HEIGHT:g}v{turn}H{edge + side * LANE * (number + 1):g}"
    return f"{path}V{to_y - GAP + turn:g}H{to_x - side * LANE:g}V{to_y - 2:g}"


def _box(name: str, x: float, y: float, width: float) -> str:
    text = f'<tspan class="name">{escape(name)}</tspan>'
    meaning = shorten(_meaning(name), int((width - 9 * len(name) - 36) / 6.5), placeholder=" …")
    if meaning:
        text += f'<tspan dx="12">{escape(meaning)}</tspan>'
    rect = f'<rect class="box" x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="5"/>'
    return f'{rect}<text x="{x + 12:g}" y="{y + HEIGHT / 2 + 5:g}">{text}</text>'


def _meaning(name: str) -> str:
    """What a package is for: its docstring up to the first stop or colon."""
    if "," in name:
        return ""
    found = find_spec(f"consilience.{name}")
    assert found is not None and found.origin is not None
    text = ast.get_docstring(ast.parse(Path(found.origin).read_text())) or ""
    return text.replace(":", ".").partition(".")[0]


def _short(name: str) -> str:
    return name.removeprefix("consilience.")


if __name__ == "__main__":
    PICTURE.write_text(drawing(imports()))
