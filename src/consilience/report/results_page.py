"""The page of the results of many runs: an answer in words, drawings, tables, and a link to the report of every run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from consilience.base.files import write_atomically
from consilience.report import html
from consilience.report.run_index import every_run
from consilience.report.tables import Grid

if TYPE_CHECKING:
    import pandas as pd


def write_report(
    path: Path,
    title: str,
    about: str,
    question: str,
    answer: Sequence[str],
    grids: Sequence[Grid],
    images: Mapping[str, str],
    data: "pd.DataFrame",
    *,
    note: str = "",
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    titles: Mapping[str, str] | None = None,
) -> list[Path]:
    """Writes the results of the runs beside `path` as .csv, .md, .tex, .html and, of the first image, .svg.

    Returns the paths. The report of each finished run is written into its folder, too.

    Args:
        path: Where to write, without an ending.
        title: The title of the page.
        about: What was measured, in sentences.
        question: The heading of the answer.
        answer: The answer in sentences.
        grids: Tables of results.
        images: Drawings by title.
        data: One row per run, or per agent of each.
        note: What stands below the tables.
        first: Elements at the start of the page.
        last: Elements after the tables.
        titles: The names of methods in text, by their names in folders.
    """
    body = [*first, html.heading(question), html.verdicts(answer), html.paragraph(about)]
    for name, image in images.items():
        body += [html.heading(name), html.scrolled(image, name)]
    body += [html.heading("The numbers"), *map(html.table, grids), *([html.paragraph(note)] if note else [])]
    body += [*last, *every_run(path.parent, titles or {})]
    tables = [f"{grid.title}:\n\n{grid.markdown()}" for grid in grids]
    listed = ["\n".join(f"- {sentence}" for sentence in answer) + "\n"] if answer else []
    texts = {
        ".csv": data.to_csv(index=False),
        ".md": "\n".join([f"# {title}\n", *listed, *tables, *([f"\\{note}\n"] if note else [])]),
        ".tex": "\n".join(grid.latex() for grid in grids),
        ".html": html.page(title, body),
        ".svg": next(iter(images.values())),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(path.name + ending) for ending in texts]
    for file, text in zip(written, texts.values(), strict=True):
        write_atomically(file, text.encode())
    return written
