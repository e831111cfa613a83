"""The frame of plain pages: a title, text, tables and drawings, one file that opens offline."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from consilience.report.tables import Grid


def page(title: str, body: Sequence[str]) -> str:
    """A whole page of parts that are HTML already."""
    template = (files("consilience.report") / "shell.html").read_text(encoding="utf-8")
    head, tail = template.replace("__TITLE__", escape(title)).split("__BODY__")
    return head + "\n".join(body) + tail


def bullets(sentences: Sequence[str]) -> str:
    """Sentences as a list."""
    return "<ul>\n" + "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "\n</ul>"


def scrolled(part: str, label: str) -> str:
    """Something wide, in a box that scrolls sideways, by keyboard too."""
    return f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">\n{part}\n</div>'


def table(grid: Grid) -> str:
    """A grid under its title."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in grid.headings)
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in grid.rows]
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f"<h3>{escape(grid.title)}</h3>\n{scrolled(whole, grid.title)}"
