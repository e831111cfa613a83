"""The frame of plain pages: a title, text, tables and drawings, one file that opens offline."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from consilience.report.tables import Grid


def page(title: str, body: Sequence[str], refresh: int = 0) -> str:
    """A whole page of parts that are HTML already; with `refresh` it is loaded again after so many seconds."""
    template = (files("consilience.report") / "shell.html").read_text(encoding="utf-8")
    again = f'<meta http-equiv="refresh" content="{refresh}">\n' if refresh else ""
    head, tail = template.replace("__TITLE__", escape(title)).replace("</head>", f"{again}</head>").split("__BODY__")
    return head + "\n".join(body) + tail


def bullets(sentences: Sequence[str]) -> str:
    """Sentences as a list."""
    return "<ul>\n" + "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "\n</ul>"


def scrolled(part: str, label: str) -> str:
    """Something wide, in a box that scrolls sideways, by keyboard too."""
    return f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">\n{part}\n</div>'


def table(grid: Grid, links: Sequence[str] = ()) -> str:
    """A grid under its title. With `links` the first cell of a row leads somewhere, unless its link is empty."""
    words = [' class="words"' if number < grid.words else "" for number in range(len(grid.headings))]
    headings = zip(words, grid.headings, strict=True)
    head = "".join(f'<th scope="col"{kind}>{escape(heading)}</th>' for kind, heading in headings)
    rows = []
    for place, row in enumerate(grid.rows):
        cells = [escape(cell) for cell in row]
        if links and links[place]:
            cells[0] = f'<a href="{escape(links[place])}">{cells[0]}</a>'
        rows.append("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(words, cells, strict=True)))
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f"<h3>{escape(grid.title)}</h3>\n{scrolled(whole, grid.title)}"
