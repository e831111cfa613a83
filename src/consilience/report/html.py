"""The frame of plain pages: a title, text, tables and drawings, one file that opens offline."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from consilience.report.tables import Grid

KEPT = """<script>
setInterval(async () => {
  const found = await fetch(location).then(answer => answer.text()).catch(() => "");
  const page = new DOMParser().parseFromString(found, "text/html"), main = page.querySelector("main");
  if (page.getElementById("data")) location.reload();  // the run has begun
  else if (main) document.querySelector("main").replaceWith(main);
}, SECONDS);
</script>"""
"""Keeps a page up to date that is served: its content is fetched again and put into place, without a reload."""


def page(title: str, body: Sequence[str], refresh: int = 0) -> str:
    """A whole page of parts that are HTML already; with `refresh` they are fetched again every so many seconds."""
    template = (files("consilience.report") / "shell.html").read_text(encoding="utf-8")
    if refresh:
        allowed = "default-src 'none'; script-src 'unsafe-inline'; connect-src 'self';"
        template = template.replace("default-src 'none';", allowed)
        template = template.replace("</body>", KEPT.replace("SECONDS", str(1000 * refresh)) + "\n</body>")
    head, tail = template.replace("__TITLE__", escape(title)).split("__BODY__")
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
