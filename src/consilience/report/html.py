"""Plain pages: a title, text, tables and drawings in one file that opens offline."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from consilience.base.files import write_atomically
from consilience.report.tables import Grid

if TYPE_CHECKING:
    import pandas as pd

REFRESH_SCRIPT = """<script>
setInterval(async () => {
  const text = await fetch(location).then(answer => answer.text()).catch(() => "");
  const page = new DOMParser().parseFromString(text, "text/html"), main = page.querySelector("main");
  if (page.getElementById("data")) location.reload();  // the run has begun
  else if (main) document.querySelector("main").replaceWith(main);
}, SECONDS);
</script>"""
"""Fetches a served page again and replaces its content, without a reload."""


def page(title: str, body: Iterable[str], refresh: int = 0) -> str:
    """A whole page of HTML elements, fetched again every `refresh` seconds unless that is 0."""
    template = (files("consilience.report") / "shell.html").read_text(encoding="utf-8")
    if refresh:
        allowed = "default-src 'none'; script-src 'unsafe-inline'; connect-src 'self';"
        template = template.replace("default-src 'none';", allowed)
        template = template.replace("</body>", REFRESH_SCRIPT.replace("SECONDS", str(1000 * refresh)) + "\n</body>")
    head, tail = template.replace("__TITLE__", escape(title)).split("__BODY__")
    return head + "\n".join(body) + tail


def heading(text: str) -> str:
    """The heading of a section."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def bullets(sentences: Iterable[str]) -> str:
    """Sentences as a list."""
    return "<ul>\n" + "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "\n</ul>"


def scrolled(content: str, label: str) -> str:
    """Wide content in a box that scrolls sideways, also with the keyboard."""
    return f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0">\n{content}\n</div>'


def panels(images: Iterable[str]) -> str:
    """Drawings beside each other."""
    return "\n".join(['<div class="panels">', *(f"<div>{image}</div>" for image in images), "</div>"])


def table(grid: Grid, links: Sequence[str] = ()) -> str:
    """A grid under its title. With `links` the first cell of each row is a link, unless its link is empty."""
    words = [' class="words"' if number < grid.words else "" for number in range(len(grid.headings))]
    headings = zip(words, grid.headings, strict=True)
    head = "".join(f'<th scope="col"{kind}>{escape(heading)}</th>' for kind, heading in headings)
    rows = []
    for index, row in enumerate(grid.rows):
        cells = [escape(cell) for cell in row]
        if links and links[index]:
            cells[0] = f'<a href="{escape(links[index])}">{cells[0]}</a>'
        rows.append("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(words, cells, strict=True)))
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f"<h3>{escape(grid.title)}</h3>\n{scrolled(whole, grid.title)}"


def write_report(
    path: Path,
    title: str,
    about: str,
    question: str,
    grids: Sequence[Grid],
    images: Mapping[str, str],
    data: "pd.DataFrame",
    sentences: Sequence[str] = (),
    note: str = "",
    first: Sequence[str] = (),
    last: Sequence[str] = (),
) -> list[Path]:
    """Writes the results of many runs as `path`.csv, .md, .tex, .html and, of the first image, .svg; returns the paths.

    Args:
        path: Where to write, without an ending.
        title: The title of the page.
        about: What was measured, in sentences.
        question: The heading of the answer.
        grids: Tables of results.
        images: Drawings by title.
        data: One row per run, or per agent of each.
        sentences: The answer to the question.
        note: What stands below the tables.
        first: Elements at the start of the page.
        last: Elements at its end.
    """
    body = [*first, paragraph(about), heading(question), *([bullets(sentences)] if sentences else [])]
    for name, image in images.items():
        body += [heading(name), scrolled(image, name)]
    body += [heading("The numbers"), *map(table, grids), *([paragraph(note)] if note else []), *last]
    tables = [f"{grid.title}:\n\n{grid.markdown()}" for grid in grids]
    listed = ["\n".join(f"- {sentence}" for sentence in sentences) + "\n"] if sentences else []
    texts = {
        ".csv": data.to_csv(index=False),
        ".md": "\n".join([f"# {title}\n", *listed, *tables, *([f"\\{note}\n"] if note else [])]),
        ".tex": "\n".join(grid.latex() for grid in grids),
        ".html": page(title, body),
        ".svg": next(iter(images.values())),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(path.name + ending) for ending in texts]
    for file, text in zip(written, texts.values(), strict=True):
        write_atomically(file, text.encode())
    return written
