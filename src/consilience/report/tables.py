"""Tables: a run and a comparison, on screen, in Markdown and in LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
from pandas.api.types import is_integer_dtype, is_numeric_dtype
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from consilience.core.consensus import trust_received
from consilience.methods import method_named
from consilience.report.gains import PLACES, Gain, Measure, gains, mean_gain, measures
from consilience.report.numbers import UNKNOWN, bounds, many, number, signed, size, spread
from consilience.runtime.run import Run
from consilience.runtime.summary import AgentSummary
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd

    from consilience.experiments.compare import ComparisonLine, Estimate
    from consilience.experiments.ensemble import CollectiveLine

INTERVAL = "95 % interval"
MOST_ROWS = 40
"""Up to this number of agents each has a row."""
SHORTEST = 6
"""Least width of a column of words, in letters."""


@dataclass(frozen=True)
class Grid:
    """A table that a rich console prints: a title, headings, rows of text; columns of numbers are aligned right."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int = 1
    """How many leading columns hold words; the others hold numbers."""
    best: frozenset[tuple[int, int]] = frozenset()
    """Cells to mark, as (row, column)."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As a rich table. On a narrow screen words and headings wrap, and no number is cut.

        If that does not suffice, the last columns are left out.
        """
        narrow = sum(self._widths(self.headings)) + 2 * (len(self.headings) - 1) > options.max_width
        headings = self._wrapped() if narrow else self.headings
        widths, shown = self._widths(headings), len(headings)
        least = [min(width, SHORTEST) for width in widths[: self.words]] + widths[self.words :]
        while shown > self.words and sum(least[:shown]) + shown - 1 > options.max_width:
            shown -= 1
        table = Table(title=self.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        table.show_edge = False
        table.padding = (0, 0, 0, 0) if narrow else (0, 1, 0, 0)
        for index, heading in enumerate(headings[:shown]):
            if index < self.words:
                table.add_column(heading, overflow="fold")
            else:
                table.add_column(heading, justify="right", no_wrap=True)
        for index, row in enumerate(self.rows):
            cells = [console.render_str(cell, markup=False, emoji=False, highlight=False) for cell in row[:shown]]
            for at, cell in enumerate(cells):
                cell.stylize("bold" if (index, at) in self.best else "")
            table.add_row(*cells)
        yield table

    def _wrapped(self) -> list[str]:
        """The headings, those of numbers in lines that are hardly longer than the numbers."""
        cells = self._widths([""] * len(self.headings))
        return [
            "\n".join(wrap(heading, max(1, cells[index]), break_long_words=False))
            if index >= self.words and "\n" not in heading
            else heading
            for index, heading in enumerate(self.headings)
        ]

    def _widths(self, headings: Sequence[str]) -> list[int]:
        """Letters in the longest line of each column."""
        lines = [[max(map(len, cell.split("\n"))) for cell in row] for row in (headings, *self.rows)]
        return [max(column) for column in zip(*lines, strict=True)]

    def markdown(self) -> str:
        """As a Markdown table."""
        rule = tuple("---" if index < self.words else "---:" for index in range(len(self.headings)))
        rows = [
            tuple(f"**{cell}**" if (index, at) in self.best else cell for at, cell in enumerate(row))
            for index, row in enumerate(self.rows)
        ]
        lines = [tuple(heading.replace("\n", " ") for heading in self.headings), rule, *rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def latex(self) -> str:
        """As a LaTeX tabular with booktabs rules."""
        columns = "l" * self.words + "r" * (len(self.headings) - self.words)
        body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in self.rows]
        head = " & ".join(_tex(cell).replace("\n", " ") for cell in self.headings) + r" \\"
        parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*parts, r"\end{tabular}"]) + "\n"


def run_grid(run: Run) -> Grid:
    """Per agent: model, samples, score alone and together, gain and its interval, trust received.

    For more than `MOST_ROWS` agents their distribution.
    """
    measure = first_measure(run)
    if len(run.names) > MOST_ROWS:
        return many_grid(run, measure)
    known = gains(run, measure) if measure else {}
    trust, compared = _trust_columns(run), "alone" in run.references
    marks = {agent.name: _labels(agent) for agent in run.summary.agents}
    marked = any(mark != "good" for mark in marks.values())
    rows = []
    for index, agent in enumerate(run.summary.agents):
        gain = known.get(agent.name, Gain(*[float("nan")] * 5))
        words = (agent.name, agent.model, *((marks[agent.name],) if marked else ()))
        received = (f"{column[index]:.2f}" for column in trust)
        rows.append((*words, f"{agent.samples}", *(gain.texts if compared else gain.texts[1:2]), *received))
    ends = [f"trust\nround\n{run.trust_rounds[end]}" for end in (0, -1)[: len(trust)]]
    scores = ("alone", "together", "gain", INTERVAL) if compared else ("score",)
    headings = ("agent", "model", *(("labels",) if marked else ()), "samples", *scores, *ends)
    return Grid(_capital(measure.title) if measure else "Agents", headings, rows, words=3 if marked else 2)


def many_grid(run: Run, measure: Measure | None) -> Grid:
    """Mean, worst, best and percentiles of each column over many agents, by kind of labels."""
    known = gains(run, measure) if measure else {}
    up = measure is None or measure.score.higher_is_better
    kinds: dict[str, list[Gain]] = {}
    for agent in run.summary.agents:
        if agent.name in known:
            kinds.setdefault(_labels(agent), []).append(known[agent.name])
    compared, rows = "alone" in run.references, list[tuple[str, ...]]()
    inner = ["10 % are below", "median", "10 % are above"]
    titles = ["mean", "worst", *(inner if up else inner[::-1]), "best"]
    for kind, own in kinds.items():
        alone, together = (spread([getattr(gain, key) for gain in own], up) for key in ("alone", "together"))
        gained = spread([gain.gain for gain in own], up=True)
        for index, title in enumerate(titles):
            cells = (number(alone[index]), number(together[index]), signed(gained[index]))
            labels = (kind if title == "mean" else "",) if len(kinds) > 1 else ()
            rows.append((title, *labels, *(cells if compared else cells[1:2])))
    headings = ("of agents", *(("labels",) if len(kinds) > 1 else ()))
    title = f"{_capital(measure.title)}, {len(run.names)} agents" if measure else f"{len(run.names)} agents"
    return Grid(title, (*headings, *(("alone", "together", "gain") if compared else ("score",))), rows, len(headings))


def first_measure(run: Run) -> Measure | None:
    """The score in tables: the task's first, at the most telling place with labels."""
    return next(iter(measures(run)), None)


def means_grid(run: Run) -> Grid | None:
    """Mean over the agents with good labels, for the method and each reference; None without labels."""
    measure = first_measure(run)
    if measure is None:
        return None
    rows = []
    for method in [*run.references.values(), run]:
        table = method.last_round()
        good = table[~(table["low_quality"] | table["attacker"])][measure.column]
        worst = good.min() if measure.score.higher_is_better else good.max()
        gain = mean_gain(run, measure, method)
        gained = ("", "") if method.summary.method == "alone" else (signed(gain.gain), bounds(gain.low, gain.high))
        sent = size(int(method.metrics["bytes_sent"].sum()))
        rows.append((method.summary.title, number(good.mean()), number(worst), *gained, sent))
    headings = ("method", "mean", "worst agent", "gain over alone", INTERVAL, "sent")
    return Grid(f"Mean over {good_agents(run)}", headings, rows)


def scores_grid(run: Run) -> Grid | None:
    """Every score at the most telling place, mean over the agents with good labels; None without any to compare."""
    measure = first_measure(run)
    if measure is None or "alone" not in run.references:
        return None
    rows = []
    for other in measures(run):
        if other.place == measure.place:
            gain = mean_gain(run, other)
            up = "" if other.score.higher_is_better else " (lower is better)"
            rows.append((other.score.title + up, *gain.texts))
    title = f"Every score on {PLACES[measure.place]}, mean over {good_agents(run)}"
    return Grid(title, ("score", "alone", "together", "gain", INTERVAL), rows)


def good_agents(run: Run) -> str:
    """The name of the group of agents over which means are taken."""
    attacked = any(agent.attacker for agent in run.summary.agents)
    return "the honest agents with good labels" if attacked else "the agents with good labels"


def weights_sentence(run: Run) -> str:
    """The bytes sent, and what sharing weights would have cost where that is possible."""
    sending = run.metrics[run.metrics["bytes_sent"] > 0]
    if sending.empty:
        return "Nothing was sent."
    rounds, agents = sending["round"].nunique(), run.summary.agents
    sent = int(sending["bytes_sent"].sum())
    total = f"Sent: {size(sent)} in all, {size(sent / (len(agents) * rounds))} per agent and round."
    if not run.weighed:
        return f"{total} These are the weights themselves, to the server and back."
    sizes = [agent.parameters for agent in agents if agent.parameters is not None]
    if len({agent.model for agent in agents}) == 1 and len(sizes) == len(agents):
        cost = sum(2 * 4 * count for count in sizes) * rounds
        return f"{total} Sharing weights through a server would have sent {size(cost)}."
    kinds = dict.fromkeys(agent.model for agent in agents)
    possible = {agent.model: agent.parameters for agent in agents if agent.parameters is not None}
    reason = "the agents' models differ" if len(kinds) > 1 else "these models have no weights to average"
    text = f"{total} Sharing weights is not possible here: {reason} ({', '.join(kinds)})"
    if possible:
        costs = ", ".join(f"{size(2 * 4 * count)} for each {model}" for model, count in possible.items())
        text += f"; among their own kind it would cost {costs} per round"
    return text + "."


def site_grid(runs: dict[str, Run]) -> Grid:
    """Gains of the sites of a federation over as many rounds alone, and the peer that each trusts most."""
    rows: list[tuple[str, ...]] = []
    for name, run in runs.items():
        most = UNKNOWN
        if len(run.trust):
            row = np.where([other == name for other in run.names], 0, run.trust[-1][0])
            most = f"{run.names[int(row.argmax())]} {row.max():.2f}"
        first = run.summary.scores[0]
        shown = [measure for measure in measures(run) if measure.score == first and measure.place in ("own", "target")]
        shown.sort(key=lambda measure: measure.place != "own")
        rest = (most, f"{len(run.metrics)}/{run.summary.rounds}")
        for measure in shown:
            gain = gains(run, measure)[name]
            rows.append((name if measure is shown[0] else "", measure.place, *gain.texts, *rest))
            rest = ("", "")
        if not shown:
            rows.append((name, UNKNOWN, *[UNKNOWN] * 4, *rest))
    headings = ("site", "on", "alone", "together", "gain", INTERVAL, "trusts most", "rounds")
    score = next(iter(runs.values())).summary.scores[0].title
    return Grid(f"{_capital(score)} after equal training alone, and together", headings, rows, words=2)


def compare_grid(lines: Sequence["ComparisonLine"], score: str, seeds: int, higher_is_better: bool) -> Grid:
    """A comparison: mean, worst agent, gain over alone and difference to the first method, with 95 % intervals.

    Beside the mean stand that at home and that of the home model, where they are known.
    The best method stands first, and is marked.
    """
    known = {"elsewhere": "on the\ntarget" if score.endswith("_own") else "at home", "home": "home\nmodel"}
    shown = {key: text for key, text in known.items() if not all(np.isnan(getattr(line, key)) for line in lines)}
    rows = []
    for line in sorted(lines, key=lambda line: -line.score.mean if higher_is_better else line.score.mean):
        means = [number(value) for value in (line.score.mean, *(getattr(line, key) for key in shown), line.worst)]
        rest = (_interval(line.gain), _interval(line.lead), many(line.trained), many(line.forward))
        rows.append((line.title, *means, *rest))
    mean = f"mean over agents with good labels and {seeds} seed{'s' if seeds > 1 else ''}; ± 95 % interval"
    title = f"{score_text(score)}, {mean}"
    against = f"against {lines[0].title}"
    means = ["mean", *shown.values(), "worst agent"]
    headings = ("method", *means, "gain over alone", against, "samples\ntrained", "forward\nonly")
    return Grid(title, headings, rows, best=frozenset({(0, 0), (0, 1)}))


def score_text(column: str) -> str:
    """The name of a column of scores in text.

    >>> score_text("balanced_accuracy_target")
    'Balanced accuracy on the target domain'
    """
    score, _, where = column.rpartition("_")
    return f"{_capital(score.replace('_', ' '))} on {PLACES.get(where, where)}"


def collective_grid(lines: Sequence["CollectiveLine"], score: str, seeds: int) -> Grid:
    """Collective prediction compared with the mean agent, the best agent and an even mixture."""
    rows = []
    for line in lines:
        scores = (line.mean, line.best, line.even, line.collective)
        differences = (line.over_mean, line.over_best, line.over_even)
        rows.append((line.title, *map(number, scores), *map(_interval, differences)))
    title = f"{score} on the target domain, means over {seeds} seed{'s' if seeds > 1 else ''}; ± 95 % interval"
    headings = ("method", "mean agent", "best agent", "all even", "collective", "over mean", "over best", "over even")
    return Grid(title, headings, rows)


def method_title(name: str) -> str:
    """The name of a method in tables."""
    return method_named(name).title


def frame_grid(table: "pd.DataFrame", title: str) -> Grid:
    """A DataFrame as a table: words to the left, numbers with three digits to the right."""
    words = [str(column) for column in table if not is_numeric_dtype(table[column])]
    numbers = [str(column) for column in table if str(column) not in words]
    rows = []
    for _, row in table.iterrows():
        cells = [f"{row[c]:,}" if is_integer_dtype(table[c]) else number(row[c]) for c in numbers]
        rows.append((*(method_title(row[c]) if c == "method" else str(row[c]) for c in words), *cells))
    headings = tuple("± 95 %" if c == "half_width" else c.replace("_", " ") for c in (*words, *numbers))
    return Grid(title, headings, rows, words=len(words))


def _trust_columns(run: Run) -> list[Array]:
    """Trust received from peers in the first and the last round of collaboration, or in the only one."""
    if not len(run.trust) or run.trust.shape[1] != run.trust.shape[2]:
        return []
    return [trust_received(matrix) for matrix in (run.trust[[0, -1]] if len(run.trust) > 1 else run.trust)]


def _labels(agent: AgentSummary) -> str:
    return ("shifted" if agent.low_quality else "good") + (", lies" if agent.attacker else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _interval(value: "Estimate") -> str:
    if np.isnan(value.mean):
        return UNKNOWN
    return value.text(signed=True) + (" (one seed)" if np.isnan(value.half_width) else "")


def _tex(cell: str) -> str:
    for sign in ("&", "%", "_", "#"):
        cell = cell.replace(sign, f"\\{sign}")
    return cell.replace("±", r"$\pm$")
