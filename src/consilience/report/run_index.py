"""One page about many runs, such as those of a comparison or of the reproduction: their progress and plots."""

import base64
import csv
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from pathlib import Path
from urllib.parse import quote

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.report import drawing, html
from consilience.report.live_data import has_ended, is_run, snapshot, state_of
from consilience.report.numbers import number
from consilience.report.page import write_page
from consilience.report.tables import Grid, score_text
from consilience.runtime import checkpoint
from consilience.runtime.run import is_finished, load_run

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 220, 46, 12, 28, 36
"""Measures of a panel, in pixels."""
MOST_ROWS = 40
"""Rows of a table on the page; its file has all of them."""
MOST_REPORTS = 200
"""Up to this number of runs each gets a report."""


@dataclass(frozen=True)
class Standing:
    """The progress of a run: rounds, and the mean score of its agents with good labels after each."""

    name: str
    text: str
    rounds: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    score: str = ""

    @property
    def parts(self) -> tuple[str, str]:
        """From the path: the panel and the line in it. Seeds share a line."""
        names = [name for name in self.name.split("/") if not name.startswith("seed-")]
        return ", ".join(names[:-1]), names[-1] if names else self.name


def runs_below(folder: Path) -> list[Path]:
    """Every run in a folder, without the reference runs of others."""
    runs = sorted(path.parent for path in folder.rglob("config.toml") if is_run(path.parent))
    return [run for run in runs if not any(other in run.parents for other in runs)]


def standing(run: Path, folder: Path) -> Standing:
    """The progress of a run."""
    name = run.relative_to(folder).as_posix()
    try:
        text = str(state_of(run)["text"])
        rounds, scores, score = _scores(run, checkpoint.last_round(run / "checkpoint"), is_finished(run))
    except (ConsilienceError, OSError):  # it is being written at this moment
        return Standing(name, "being written")
    return Standing(name, text, rounds, scores, score)


@lru_cache(maxsize=2000)
def _scores(run: Path, done: int, finished: bool) -> tuple[tuple[int, ...], tuple[float, ...], str]:
    """Rounds, means and the name of the score; read once per round."""
    current = snapshot(run)
    if current is None:
        return (), (), ""
    columns = [f"{current.summary.scores[0].name}_{where}" for where in ("target", "shared", "own")]
    column = next((name for name in columns if name in current.metrics and current.metrics[name].notna().any()), "")
    if not column:
        return (), (), ""
    good = [agent.name for agent in current.summary.agents if agent.good]
    means = current.metrics[current.metrics["agent"].isin(good)].groupby("round")[column].mean().dropna()
    return tuple(map(int, means.index)), tuple(map(float, means)), column


def every_run(folder: Path, titles: Mapping[str, str]) -> list[str]:
    """Curves and a table of the runs in a folder, with links to their reports, as elements of a page.

    Writes the report of each finished run that has none yet, if there are not too many. Gains are against the run of
    everyone alone beside it.

    Args:
        folder: The folder of the runs.
        titles: The names of methods in text, by their names in folders.
    """
    runs = runs_below(folder)
    for run in runs if len(runs) <= MOST_REPORTS else []:
        _write_report(run)
    named = named_standings(folder, titles)
    links = _reports(folder, runs)
    return [*plots(named), html.heading("Every run"), html.table(runs_grid(named), links)] if runs else []


def named_standings(folder: Path, titles: Mapping[str, str]) -> list[Standing]:
    """The progress of the runs in a folder, with the `titles` of methods in the place of their names in folders."""
    runs = [standing(run, folder) for run in runs_below(folder)]
    names = ["/".join(titles.get(name, name).replace(",_", ", ") for name in run.name.split("/")) for run in runs]
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _write_report(run: Path) -> None:
    page, summary = run / "report.html", run / "summary.json"
    if not is_finished(run) or (page.is_file() and page.stat().st_mtime >= summary.stat().st_mtime):
        return
    with suppress(ConsilienceError):  # a damaged run has no report
        alone = run.parent / "alone"
        beside = {"alone": load_run(alone)} if alone != run and is_finished(alone) else {}
        loaded = load_run(run)
        write_page(replace(loaded, references=loaded.references or beside), page)


def runs_grid(standings: Sequence[Standing]) -> Grid:
    """One row per run: its progress and its current score."""
    score = next((run.score for run in standings if run.score), "")
    rows = [(run.name, run.text, number(run.scores[-1]) if run.scores else "-") for run in standings]
    done = sum(run.text == "finished" for run in standings)
    return Grid(
        f"{len(rows)} runs, {done} of them finished",
        ("run", "state", score_text(score) if score else "score"),
        rows,
        words=2,
    )


def curves(standings: Sequence[Standing]) -> dict[str, str]:
    """An SVG for each experiment: mean score by round, a thin line for each run and a thick one for each method."""
    panels: dict[str, dict[str, list[Standing]]] = {}
    for run in standings:
        if run.scores:
            panel, line = run.parts
            panels.setdefault(panel, {}).setdefault(line, []).append(run)
    return {panel: _panel(lines, panel) for panel, lines in panels.items()}


def _panel(lines: dict[str, list[Standing]], title: str) -> str:
    runs = [run for same in lines.values() for run in same]
    scores = [score for run in runs for score in run.scores]
    low, high = drawing.with_margin(min(scores), max(scores), 0.06)
    first, last = min(run.rounds[0] for run in runs), max(run.rounds[-1] for run in runs)
    plot = drawing.Plot(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, first, last, low, high)
    score = score_text(runs[0].score)
    elements = plot.grid_lines(drawing.round_ticks(low, high, 5))
    for tick in drawing.round_ticks(first, last, 6, least=1):
        elements.append(drawing.label(plot.x(tick), HEIGHT - 18, f"{tick:.0f}", "middle"))
    elements.append(drawing.label(LEFT, 14, title or score, bold=True))
    elements.append(drawing.label((plot.left + plot.right) / 2, HEIGHT - 4, "round", "middle"))
    for index, (name, same) in enumerate(lines.items()):
        thin, thick = drawing.line_style(index, width=1) + ' opacity=".35"', drawing.line_style(index, width=2)
        by_round = [dict(zip(run.rounds, run.scores, strict=True)) for run in same]
        common = sorted(set.intersection(*map(set, by_round)))
        mean = {t: float(np.mean([known[t] for known in by_round])) for t in common}
        for known, style in [*((known, thin) for known in by_round if len(same) > 1), (mean, thick)]:
            if known:
                elements.append(drawing.line([(plot.x(t), plot.y(value)) for t, value in known.items()], style))
        x, y = LEFT + (index % 2) * 145, HEIGHT + 12 + 20 * (index // 2)
        elements += [drawing.line([(x, y - 4), (x + 22, y - 4)], thick), drawing.label(x + 28, y, name[:18])]
    description = f"{score} by round{f', {title}' if title else ''}"
    return drawing.svg(WIDTH, HEIGHT + 20 * -(-len(lines) // 2), description, elements)


def plots(standings: Sequence[Standing]) -> list[str]:
    """The curves, as elements of a page."""
    images = curves(standings)
    if not images:
        return []
    legend = "Mean over the agents with good labels. Thin lines are single seeds, thick ones their mean."
    return [html.heading("How do the scores develop?"), html.paragraph(legend), html.panels(images.values())]


def index_page(folder: Path, title: str = "", live: bool = True) -> str:
    """A page about a folder of runs: findings with their figures, curves, and every run.

    The live page links to those of the runs, and is updated until all of them have ended.
    """
    runs = runs_below(folder)
    standings = [standing(run, folder) for run in runs]
    pages = sorted(path.name for path in folder.glob("*.html") if path.name != "index.html") if live else []
    body = []
    if live and not runs:
        body.append(html.paragraph("No run has started here yet."))
    if pages:
        named = ", ".join(f'<a href="{quote(name)}">{escape(name)}</a>' for name in pages)
        body.append(f"<p>Results: {named}.</p>")
    body += _findings(folder) + plots(standings)
    if runs:
        links = [f"run/{quote(run.name)}/" for run in standings] if live else _reports(folder, runs)
        body += [html.heading("Every run"), html.table(runs_grid(standings), links)]
    under_way = not runs or not all(has_ended(run) for run in runs)
    return html.page(title or folder.resolve().name, body, refresh=(5 if runs else 2) if live and under_way else 0)


def write_index(folder: Path, title: str) -> Path:
    """Writes index.html into a folder of runs; it opens offline and needs no other file."""
    path = folder / "index.html"
    write_atomically(path, index_page(folder, title, live=False).encode())
    return path


def note_finding(folder: Path, name: str, title: str, expectation: str, sentences: Sequence[str]) -> None:
    """Saves the results of the runs in words, beside NAME.csv and NAME.svg, for the index."""
    content = {"title": title, "expectation": expectation, "sentences": list(sentences)}
    write_atomically(folder / f"{name}.json", json.dumps(content, indent=2).encode())


def _findings(folder: Path) -> list[str]:
    elements = []
    for path in sorted(folder.glob("*.json")):
        try:
            finding = json.loads(path.read_text())
            title, expectation, sentences = finding["title"], finding["expectation"], finding["sentences"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        elements.append(html.heading(title))
        elements += [html.paragraph(f"Expected: {expectation}")] if expectation else []
        elements.append(html.bullets(sentences))
        image, table = path.with_suffix(".svg"), path.with_suffix(".csv")
        if image.is_file():
            data = base64.b64encode(image.read_bytes()).decode()
            elements.append(f'<p><img src="data:image/svg+xml;base64,{data}" alt="{escape(title)}"></p>')
        if table.is_file():
            elements.append(html.table(_from_csv(table)))
    return elements


def _from_csv(path: Path) -> Grid:
    with path.open(newline="") as file:
        headings, *rows = list(csv.reader(file))
    shown = [tuple(_short(cell) for cell in row) for row in rows[:MOST_ROWS]]
    more = f", the first {MOST_ROWS} of {len(rows)} rows" if len(rows) > MOST_ROWS else ""
    texts = [column for column in range(len(headings)) if any(not _is_number(row[column]) for row in shown)]
    return Grid(f"{path.name}{more}", tuple(headings), shown, words=max(texts, default=0) + 1)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "") or "nan")
    except ValueError:
        return False
    return True


def _short(cell: str) -> str:
    """A number as tables have it; words and whole numbers as they are."""
    return number(float(cell)) if _is_number(cell) and "." in cell and "e" not in cell else cell


def _reports(folder: Path, runs: Sequence[Path]) -> list[str]:
    """Links to the reports of runs that have one."""
    pages = [run / "report.html" for run in runs]
    return [quote(page.relative_to(folder).as_posix()) if page.is_file() else "" for page in pages]
