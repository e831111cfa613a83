"""Plain pages: a title, text, tables and drawings in one file that opens offline."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from consilience.report.tables import Grid

REFRESH_SCRIPT = """<script>
setInterval(async () => {
  const text = await fetch(location).then(answer => answer.text()).catch(() => "");
  const page = new DOMParser().parseFromString(text, "text/html"), main = page.querySelector("main");
  if (page.getElementById("data")) location.reload();  // the run has begun
  else if (main) document.querySelector("main").replaceWith(main);
}, SECONDS);
</script>"""
"""Fetches a served page again and replaces its content, without a reload."""


def template(name: str) -> str:
    """A template of a page, with the style that all pages share."""
    home = files("consilience.report")
    return (
        (home / name).read_text(encoding="utf-8").replace("__STYLE__", (home / "style.css").read_text(encoding="utf-8"))
    )


def page(title: str, body: Iterable[str], refresh: int = 0) -> str:
    """A whole page of HTML elements, fetched again every `refresh` seconds unless that is 0."""
    text = template("shell.html")
    if refresh:
        allowed = "default-src 'none'; script-src 'unsafe-inline'; connect-src 'self';"
        text = text.replace("default-src 'none';", allowed)
        text = text.replace("</body>", REFRESH_SCRIPT.replace("SECONDS", str(1000 * refresh)) + "\n</body>")
    head, tail = text.replace("__TITLE__", escape(title)).split("__BODY__")
    return head + "\n".join(body) + tail


def heading(text: str) -> str:
    """The heading of a section."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def verdicts(sentences: Iterable[str], kind: str = "") -> str:
    """The answer to a question, above all else."""
    lines = "".join(f"<p{f' class={kind}' if kind else ''}>{escape(sentence)}</p>" for sentence in sentences)
    return f'<div class="verdicts">{lines}</div>' if lines else ""


def tiles(numbers: Iterable[tuple[str, str, str]]) -> str:
    """Names with a number and a note below it, as tiles beside each other; the first is the best."""
    boxes = []
    for index, (name, value, note) in enumerate(numbers):
        mark = ' <span class="tag mark">best</span>' if index == 0 else ""
        text = f'<b>{escape(name)}{mark}</b><span class="big">{escape(value)}</span><small>{escape(note)}</small>'
        boxes.append(f'<div class="tile{" best" * (index == 0)}">{text}</div>')
    return f'<div class="tiles">{"".join(boxes)}</div>'


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
        cells = [f"<strong>{cell}</strong>" if (index, at) in grid.best else cell for at, cell in enumerate(cells)]
        if links and links[index]:
            cells[0] = f'<a href="{escape(links[index])}">{cells[0]}</a>'
        rows.append("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(words, cells, strict=True)))
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    whole = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f"<h3>{escape(grid.title)}</h3>\n{scrolled(whole, grid.title)}"
