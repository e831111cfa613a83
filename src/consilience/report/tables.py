"""Tables: a run and a comparison, on screen, in Markdown and in LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pandas.api.types import is_integer_dtype, is_numeric_dtype
from rich.box import SIMPLE_HEAD
from rich.table import Table

from consilience.core.consensus import trust_received
from consilience.methods import method_named
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd

    from consilience.experiments.collective import CollectiveLine
    from consilience.experiments.compare import Estimate, Line


@dataclass(frozen=True)
class Grid:
    """A table before it is rendered: a title, headings, rows of text, and the numbers of columns set to the right."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int = 1
    """How many leading columns hold words; the others hold numbers."""

    def for_screen(self) -> Table:
        """As a rich table."""
        table = Table(title=self.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
        table.padding = (0, 1, 0, 0)
        for number, heading in enumerate(self.headings):
            widest = max((len(row[number]) for row in self.rows), default=0)
            if number < self.words:
                table.add_column(heading, overflow="fold")
            else:  # on a narrow screen words and headings go on in the next line, and no number is cut
                table.add_column(heading, justify="right", overflow="fold", min_width=widest)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """As a Markdown table."""
        rule = tuple("---" if number < self.words else "---:" for number in range(len(self.headings)))
        lines = [tuple(heading.replace("\n", " ") for heading in self.headings), rule, *self.rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def latex(self) -> str:
        """As a LaTeX tabular with booktabs rules."""
        columns = "l" * self.words + "r" * (len(self.headings) - self.words)
        body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in self.rows]
        head = " & ".join(_tex(cell).replace("\n", " ") for cell in self.headings) + r" \\"
        parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*parts, r"\end{tabular}"]) + "\n"


def run_grid(run: Run) -> Grid:
    """Per agent: model, samples, score alone and together, gain, trust received."""
    measure = run.summary.scores[0]
    score = f"{measure.name}_target"
    together = run.last_round().set_index("agent")[score]
    alone = together * np.nan
    if "alone" in run.references:
        alone = run.references["alone"].last_round().set_index("agent")[score]
    trust = _trust_columns(run)
    sign = 1 if measure.higher_is_better else -1
    rows = []
    for number, agent in enumerate(run.summary.agents):
        name = agent.name
        labels = ("shifted" if agent.low_quality else "good") + (", lies" if agent.attacker else "")
        gain = sign * (together[name] - alone[name])
        numbers = (f"{agent.samples}", _number(alone[name]), _number(together[name]), _signed(gain))
        rows.append((name, agent.model, labels, *numbers, *(f"{column[number]:.2f}" for column in trust)))
    first = run.trust_rounds[0] if len(trust) else 0
    last = run.trust_rounds[-1] if len(trust) else 0
    received = (f"trust in\nround {first}", f"trust in\nround {last}") if len(trust) else ()
    headings = (
        "agent",
        "model",
        "labels",
        "samples",
        "alone",
        "together",
        "gain",
        *received,
    )
    what = f"{measure.title[0].upper()}{measure.title[1:]}"
    return Grid(f"{what} on the target domain", headings, rows, words=3)


def means_grid(run: Run) -> Grid:
    """Mean over the agents with good labels, for the method and each reference."""
    measure = run.summary.scores[0]
    rows = []
    for one in [*run.references.values(), run]:
        table = one.last_round()
        good = table[~(table["low_quality"] | table["attacker"])][f"{measure.name}_target"]
        worst = good.min() if measure.higher_is_better else good.max()
        sent = int(one.metrics["bytes_sent"].sum())
        rows.append((one.summary.title, _number(good.mean()), _number(worst), size(sent)))
    return Grid(f"Mean over {good_agents(run)}", ("method", "mean", "worst agent", "sent"), rows)


def good_agents(run: Run) -> str:
    """How the agents are called over which means are taken."""
    lies = any(agent.attacker for agent in run.summary.agents)
    return "the honest agents with good labels" if lies else "the agents with good labels"


def weights_sentence(run: Run) -> str:
    """What was sent, beside what sharing weights would have cost where that is possible at all."""
    sending = run.metrics[run.metrics["bytes_sent"] > 0]
    if sending.empty:
        return "Nothing was sent."
    rounds, agents = sending["round"].nunique(), run.summary.agents
    sent = int(sending["bytes_sent"].sum())
    said = f"Sent: {size(sent)} in all, {size(sent / (len(agents) * rounds))} per agent and round."
    if not len(run.trust):
        return f"{said} These are the weights themselves, to the server and back."
    sizes = [agent.parameters for agent in agents if agent.parameters is not None]
    if len({agent.model for agent in agents}) == 1 and len(sizes) == len(agents):
        cost = sum(2 * 4 * number for number in sizes) * rounds
        return f"{said} Sharing weights through a server would have sent {size(cost)}."
    kinds = dict.fromkeys(agent.model for agent in agents)
    possible = {agent.model: agent.parameters for agent in agents if agent.parameters is not None}
    reason = "the agents' models differ" if len(kinds) > 1 else "these models have no weights to average"
    text = f"{said} Sharing weights is not possible here: {reason} ({', '.join(kinds)})"
    if possible:
        costs = ", ".join(f"{size(2 * 4 * number)} for each {model}" for model, number in possible.items())
        text += f"; among their own kind it would cost {costs} per round"
    return text + "."


def site_grid(runs: dict[str, Run]) -> Grid:
    """What sites of a federation gained: scores after as many rounds alone and together, and whom each trusts most."""
    rows = []
    for name, run in runs.items():
        known = run.metrics.set_index("round")
        columns = [f"{run.summary.scores[0].name}_{place}" for place in ("own", "target")]
        last = known[columns].iloc[-1]
        alone = run.references["alone"].metrics[columns].iloc[-1] if "alone" in run.references else last * np.nan
        own, domain = (f"{_number(alone[column])} → {_number(last[column])}" for column in columns)
        most = "-"
        if len(run.trust):
            row = np.where([other == name for other in run.names], 0, run.trust[-1][0])
            most = f"{run.names[int(row.argmax())]} ({row.max():.2f})"
        rows.append((name, own, domain, most, f"{len(known)}/{run.summary.rounds}"))
    return Grid("Accuracy alone → together", ("site", "own data", "target", "trusts most", "rounds"), rows)


def compare_grid(lines: Sequence["Line"], score: str, seeds: int) -> Grid:
    """A comparison: mean, worst agent, gain over alone and difference to the first method, with 95 % intervals."""
    rows = []
    for line in lines:
        cells = (_number(line.score.mean), _number(line.worst), _interval(line.gain), _interval(line.lead))
        rows.append((line.title, *cells))
    title = f"{score}, mean over agents with good labels and {seeds} seed{'s' if seeds > 1 else ''}; ± 95 % interval"
    against = f"against {lines[0].method}"
    return Grid(title, ("method", "mean", "worst agent", "gain over alone", against), rows)


def collective_grid(lines: Sequence["CollectiveLine"], score: str, seeds: int) -> Grid:
    """Collective prediction beside the mean agent, the best one and a mixture in which all count the same."""
    rows = []
    for line in lines:
        scores = (line.mean, line.best, line.even, line.collective)
        differences = (line.over_mean, line.over_best, line.over_even)
        rows.append((line.title, *map(_number, scores), *map(_interval, differences)))
    title = f"{score} on the target domain, means over {seeds} seed{'s' if seeds > 1 else ''}; ± 95 % interval"
    headings = ("method", "mean agent", "best agent", "all even", "collective", "over mean", "over best", "over even")
    return Grid(title, headings, rows)


def method_title(name: str) -> str:
    """How a method is called in tables."""
    return method_named(name).title


def frame_grid(table: "pd.DataFrame", title: str) -> Grid:
    """A DataFrame as a table: words to the left, numbers with three digits to the right."""
    words = [str(column) for column in table if not is_numeric_dtype(table[column])]
    numbers = [str(column) for column in table if str(column) not in words]
    rows = []
    for _, row in table.iterrows():
        cells = [f"{row[c]:,}" if is_integer_dtype(table[c]) else _number(row[c]) for c in numbers]
        rows.append((*(method_title(row[c]) if c == "method" else str(row[c]) for c in words), *cells))
    headings = tuple("± 95 %" if c == "half_width" else c.replace("_", " ") for c in (*words, *numbers))
    return Grid(title, headings, rows, words=len(words))


def size(number: float) -> str:
    """Bytes for people.

    >>> size(1_080_000)
    '1.1 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError


def _trust_columns(run: Run) -> list[Array]:
    """Trust received from peers in the first and the last round of collaboration."""
    if not len(run.trust) or run.trust.shape[1] != run.trust.shape[2]:
        return []
    return [trust_received(run.trust[0]), trust_received(run.trust[-1])]


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _signed(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:+.3f}"


def _interval(value: "Estimate") -> str:
    if np.isnan(value.mean):
        return "-"
    if np.isnan(value.half_width):
        return f"{value.mean:+.3f} (one seed)"
    return f"{value.mean:+.3f} ± {value.half_width:.3f}"


def _tex(cell: str) -> str:
    for sign in ("&", "%", "_", "#"):
        cell = cell.replace(sign, f"\\{sign}")
    return cell.replace("±", r"$\pm$")
