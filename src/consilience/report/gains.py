"""What agents gained over equal training alone, how sure that is, and a sentence for each who gained nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from consilience.core.bootstrap import interval
from consilience.report.numbers import bounds, signed
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array, Score

if TYPE_CHECKING:
    import pandas as pd

PLACES = {"target": "the target domain", "shared": "the shared data", "own": "each agent's own test data"}
"""Where agents are measured, the most telling place first."""


@dataclass(frozen=True)
class Gain:
    """Of one agent, or the mean of several. NaN for what is not known."""

    alone: float
    together: float
    gain: float
    """Up is better, also where a lower score is."""
    low: float
    """The 95 % interval of the gain: a paired bootstrap over the test samples."""
    high: float

    @property
    def verdict(self) -> str:
        """better, worse, or unclear where the interval holds 0; empty without an interval."""
        if np.isnan(self.low):
            return ""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "unclear"


@dataclass(frozen=True)
class Measure:
    """One score at one place."""

    score: Score
    place: str

    @property
    def column(self) -> str:
        """Of the metrics."""
        return f"{self.score.name}_{self.place}"

    @property
    def title(self) -> str:
        """As in a sentence."""
        return f"{self.score.title} on {PLACES[self.place]}"


def measures(run: Run) -> list[Measure]:
    """The scores that somebody has, at the most telling place first."""
    every = [Measure(score, place) for place in PLACES for score in run.summary.scores]
    return [one for one in every if one.column in run.metrics and not run.metrics[one.column].isna().all()]


def gains(run: Run, measure: Measure) -> dict[str, Gain]:
    """By agent, for those that are measured here."""
    return {name: _gain(run, measure, [name]) for name in _known(run, measure)}


def mean_gain(run: Run, measure: Measure, of: Run | None = None) -> Gain:
    """The mean over the agents with good labels, of the run or of one `of` its references."""
    bad = {agent.name for agent in run.summary.agents if agent.low_quality or agent.attacker}
    return _gain(run, measure, [name for name in _known(run, measure) if name not in bad], of)


def _known(run: Run, measure: Measure) -> list[str]:
    last = run.last_round().set_index("agent")[measure.column]
    return [str(name) for name in last.index if not np.isnan(last[name])]


def _gain(run: Run, measure: Measure, names: Sequence[str], of: Run | None = None) -> Gain:
    together, alone = of or run, run.references.get("alone")
    sign = 1 if measure.score.higher_is_better else -1
    score = _score(together, measure.column, names)
    if alone is None:
        return Gain(float("nan"), score, *[float("nan")] * 3)
    before = _score(alone, measure.column, names)
    draws = sign * (_draws(together, measure.column, names) - _draws(alone, measure.column, names))
    return Gain(before, score, sign * (score - before), *interval(draws))


def _score(run: Run, column: str, names: Sequence[str]) -> float:
    if column not in run.metrics or not len(names):
        return float("nan")
    return float(run.last_round().set_index("agent")[column].reindex(list(names)).mean())


def _draws(run: Run, column: str, names: Sequence[str]) -> Array:
    """The mean over agents of each resample's score (draws,); one NaN where that is not known."""
    rows = list(dict.fromkeys(run.metrics["agent"]))
    if column not in run.draws or not len(names) or not set(names) <= set(rows):
        return np.full(1, np.nan)
    return np.asarray(run.draws[column][[rows.index(name) for name in names]].mean(axis=0, dtype=np.float64))


def gain_table(run: Run) -> "pd.DataFrame":
    """One row per agent, score and place: alone, together, gain, and its 95 % interval from low to high."""
    import pandas as pd

    rows = [
        {"agent": name, "score": one.score.name, "place": one.place} | asdict(gain)
        for one in measures(run)
        for name, gain in gains(run, one).items()
    ]
    return pd.DataFrame(rows, columns=["agent", "score", "place", *(one.name for one in fields(Gain))])


def verdicts(run: Run) -> list[str]:
    """Sentences on whom collaborating helped and whom it did not. They come first in every report."""
    if "alone" not in run.references:
        return []
    found = [one for one in measures(run) if one.score == run.summary.scores[0]]
    everyone = len({name for one in found for name in _known(run, one)})
    if everyone == 1:
        return [_of_one(gain, one) for one in found for gain in gains(run, one).values()]
    return _of_many(gains(run, found[0]), found[0]) if found else []


def _of_one(gain: Gain, measure: Measure) -> str:
    what = measure.title.replace("each agent's own", "its own")
    sure = f"{signed(gain.gain)} (95 % interval {bounds(gain.low, gain.high)})"
    if gain.verdict == "better":
        return f"Collaborating helped: {what} {sure} against equal training alone."
    if gain.verdict == "worse":
        return f"Collaborating did harm: {what} {sure} against equal training alone."
    return f"That collaborating helps is not shown: {what} {sure} against equal training alone."


def _of_many(found: dict[str, Gain], measure: Measure) -> list[str]:
    by = {
        kind: [name for name, gain in found.items() if gain.verdict == kind] for kind in ("better", "worse", "unclear")
    }
    if not any(by.values()):
        up = sum(gain.gain > 0 for gain in found.values())
        return [
            f"Against equal training alone, {up} of {len(found)} agents gained in {measure.title}; no intervals known."
        ]
    sentences = [
        f"Collaborating helped {len(by['better'])} of {len(found)} agents: against equal training alone, the 95 % "
        f"interval of their gain in {measure.title} is above 0."
    ]
    if by["worse"]:
        sentences.append(f"It did harm to {_listed(by['worse'], found)}.")
    if by["unclear"]:
        sentences.append(f"That it helps is not shown for {_listed(by['unclear'], found)}.")
    return sentences


def _listed(names: Sequence[str], found: dict[str, Gain]) -> str:
    shown = [f"{name} ({signed(found[name].gain)})" for name in names[:12]]
    more = [f"{len(names) - 12} more"] if len(names) > 12 else []
    parts = [*shown, *more]
    text = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"agent{'s' if len(names) > 1 else ''} {text}"
