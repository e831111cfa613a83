"""A run in a notebook: one line of text, or a table of gains and the trust matrix as a small picture."""

from collections.abc import Sequence
from html import escape

from consilience.report.gains import PLACES, Gain, Measure, gains, mean_gain, measures, verdicts
from consilience.report.numbers import number, signed
from consilience.report.tables import MOST_ROWS
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array

MOST_NAMES = 6
"""Up to this number of agents each is in the line of text."""
MOST_CELLS = 60
"""Up to this number of agents the trust matrix is drawn."""
MOST_NUMBERS = 12
"""Up to this number of agents trust is also written into the cells."""
_LETTER = 6.2
"""Width of a letter of the labels, in pixels."""
_WHITE, _BLUE = (255, 255, 255), (11, 92, 173)


def run_line(run: Run) -> str:
    """Method, rounds and agents; and how good the agents are, with what they gained, where that is known."""
    rounds, agents = run.metrics["round"].nunique(), len(run.names)
    line = f"{run.summary.method}, {agents} agents, {rounds} round{'s' if rounds > 1 else ''}"
    known = measures(run)
    if not known:
        return line
    measure = known[0]
    shown = {"mean": mean_gain(run, measure)} if agents > MOST_NAMES else gains(run, measure)
    return f"{line}; {measure.title}: {', '.join(f'{name} {_score(gain)}' for name, gain in shown.items())}"


def _score(gain: Gain) -> str:
    return number(gain.together) + (f" ({signed(gain.gain)})" if gain.gain == gain.gain else "")


def run_html(run: Run) -> str:
    """Verdicts, the table of gains, and the trust matrix of the last round."""
    rounds, agents = run.metrics["round"].nunique(), len(run.names)
    head = f"<b>{escape(run.summary.title)}</b>: {agents} agents, {rounds} round{'s' if rounds > 1 else ''}"
    sentences = "".join(f"<div>{escape(sentence)}</div>" for sentence in verdicts(run))
    known = [measure for measure in measures(run) if measure.score == run.summary.scores[0]]
    return f"<div>{head}</div>{sentences}{_gain_table(run, known) if known else ''}{_trust(run)}"


def _gain_table(run: Run, known: Sequence[Measure]) -> str:
    """The first score of the task at each place, by agent; of very many agents their mean."""
    compared = "alone" in run.references
    rows = []
    for measure in known:
        mean = len(run.names) > MOST_ROWS
        for name, gain in ({"mean": mean_gain(run, measure)} if mean else gains(run, measure)).items():
            words = [escape(name), escape(PLACES[measure.place])] if len(known) > 1 else [escape(name)]
            rows.append([*words, *(gain.texts if compared else gain.texts[1:2])])
    words = ["agent", "measured on"] if len(known) > 1 else ["agent"]
    headings = [*words, *(["alone", "together", "gain", "95 % interval"] if compared else [known[0].score.title])]
    where = known[0].title if len(known) == 1 else known[0].score.title
    align = ["left" if column < len(words) else "right" for column in range(len(headings))]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} style="text-align:{side};padding:2px 8px">{cell}</{tag}>'
            for cell, side in zip(cells, align, strict=True)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    caption = f'<caption style="text-align:left">{escape(where[0].upper() + where[1:])}</caption>'
    return f"<table>{caption}<thead><tr>{line(headings, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _trust(run: Run) -> str:
    """The last trust matrix as a picture, or where to find it; empty if the method has no trust."""
    if not run.weighed:
        return ""
    last = int(run.trust_rounds[-1])
    if run.sparse is not None or len(run.names) > MOST_CELLS or len(run.trust[-1]) != len(run.names):
        where = "run.sparse" if run.sparse is not None else "trust[-1]"
        return f"<div>Trust among {len(run.names)} agents after round {last}: <code>{where}</code></div>"
    caption = f"Trust after round {last}: how much each agent (row) trusts the others (columns)"
    return f"<div>{caption}</div>{trust_picture(run.trust[-1], run.names)}"


def trust_picture(w: Array, names: Sequence[str]) -> str:
    """A trust matrix as SVG: rows trust columns, and the largest trust is the darkest."""
    size = 40 if len(names) <= MOST_NUMBERS else 12
    short = [name if len(name) <= 16 else f"{name[:9]}…{name[-6:]}" for name in names]
    left = round(_LETTER * max(map(len, short))) + 12
    slanted = size < 40 or max(map(len, short)) * _LETTER > size
    top = round(0.9 * left) if slanted else 20
    width, height = left + size * len(names) + (4 if not slanted else 40), top + size * len(names) + 4
    largest = max(float(w.max()), 1e-9)
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="trust matrix" font-family="sans-serif" font-size="{min(11, size)}" '
        'fill="currentColor">'
    ]
    for index, name in enumerate(short):
        middle = index * size + size / 2
        x, y = left + middle, top - 6
        turned = f' transform="rotate(-60 {x:g} {y})"' if slanted else ""
        anchor = "start" if slanted else "middle"
        elements.append(f'<text x="{x:g}" y="{y}" text-anchor="{anchor}"{turned}>{escape(name)}</text>')
        elements.append(f'<text x="{left - 6}" y="{top + middle + 4:g}" text-anchor="end">{escape(name)}</text>')
    for i, row in enumerate(w.tolist()):
        for j, trust in enumerate(row):
            x, y = left + j * size, top + i * size
            title = f"{escape(names[i])} trusts {escape(names[j])}: {trust:.3f}"
            colour = _colour(trust / largest)
            elements.append(
                f'<rect x="{x}" y="{y}" width="{size - 1}" height="{size - 1}" fill="{colour}"><title>{title}</title>'
                "</rect>"
            )
            if len(names) <= MOST_NUMBERS:
                ink = "#ffffff" if trust / largest > 0.7 else "#1c2127"
                elements.append(
                    f'<text x="{x + size / 2:g}" y="{y + size / 2 + 4:g}" text-anchor="middle" fill="{ink}" '
                    f'pointer-events="none">{trust:.2f}</text>'
                )
    return "".join([*elements, "</svg>"])


def _colour(share: float) -> str:
    share = min(1.0, max(0.0, share))
    return "#" + "".join(f"{round(low + (high - low) * share):02x}" for low, high in zip(_WHITE, _BLUE, strict=True))
