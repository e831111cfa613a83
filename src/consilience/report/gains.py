"""Gains of agents over equal training alone, their intervals, and sentences about who gained nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from consilience.core.bootstrap import FEW, interval, widened, with_two_more
from consilience.core.streams import stream
from consilience.report.numbers import bounds, listed, number, signed
from consilience.runtime.history import BEHIND
from consilience.runtime.run import Run
from consilience.tasks.protocol import Array, Score

if TYPE_CHECKING:
    import pandas as pd

PLACES = {"target": "the target domain", "shared": "the shared data", "own": "each agent's own test data"}
"""Where agents are measured, the most telling place first."""
MOST_NAMED = 3
"""Agents that a caveat names."""


@dataclass(frozen=True)
class Gain:
    """The gain of one agent, or the mean of several. NaN where unknown."""

    alone: float
    together: float
    gain: float
    """Positive is better, also for scores where lower is better."""
    low: float
    """The 95 % interval of the gain: a paired bootstrap over the test samples, made wider where they are few."""
    high: float

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """Alone, together, gain and its interval, as tables have them."""
        return number(self.alone), number(self.together), signed(self.gain), bounds(self.low, self.high)

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
        """Its column of the metrics."""
        return f"{self.score.name}_{self.place}"

    @property
    def title(self) -> str:
        """Its name in a sentence."""
        return f"{self.score.title} on {PLACES[self.place]}"


def measures(run: Run) -> list[Measure]:
    """The scores that at least one agent has, the most telling place first."""
    every = [Measure(score, place) for place in PLACES for score in run.summary.scores]
    metrics = run.metrics
    return [measure for measure in every if measure.column in metrics and not metrics[measure.column].isna().all()]


def gains(run: Run, measure: Measure) -> dict[str, Gain]:
    """Gains by agent, for the agents that are measured here."""
    names = _known(run, measure)
    return dict(zip(names, _gains(run, measure, [[name] for name in names]), strict=True))


def mean_gain(run: Run, measure: Measure, of: Run | None = None) -> Gain:
    """The mean over the agents with good labels, of the run or of one `of` its references."""
    good = {agent.name for agent in run.summary.agents if agent.good}
    return _gains(run, measure, [[name for name in _known(run, measure) if name in good]], of)[0]


def _known(run: Run, measure: Measure) -> list[str]:
    last = run.last_round().set_index("agent")[measure.column]
    return [str(name) for name in last.index[last.notna()]]


def _gains(run: Run, measure: Measure, groups: Sequence[Sequence[str]], of: Run | None = None) -> list[Gain]:
    """The mean gain over each of several groups of agents."""
    together, alone = of or run, run.references.get("alone")
    sign = 1 if measure.score.higher_is_better else -1
    scores = _scores(together, measure.column, groups)
    if alone is None:
        return [Gain(float("nan"), score, *[float("nan")] * 3) for score in scores]
    before = _scores(alone, measure.column, groups)
    draws = [_differences(together, alone, measure, names) for names in groups]
    return [
        Gain(first, score, sign * (score - first), *interval(sign * drawn))
        for first, score, drawn in zip(before, scores, draws, strict=True)
    ]


def _differences(together: Run, alone: Run, measure: Measure, names: Sequence[str]) -> Array:
    """The mean over agents of each resample's difference of scores (draws,)."""
    few = [_samples_behind(together, measure, name) for name in names]
    if np.isnan(few).all():
        now, then = (_draws(run, measure.column, [names])[0] for run in (together, alone))
        return np.asarray(now - then)
    every = [_differences_of_one(together, alone, measure, *own) for own in zip(names, few, strict=True)]
    return np.asarray(np.mean(every, axis=0))


def _differences_of_one(together: Run, alone: Run, measure: Measure, name: str, samples: float) -> Array:
    """The differences of one agent whose score comes from `samples` test samples (NaN: many)."""
    now, then = (_draws(run, measure.column, [[name]])[0] for run in (together, alone))
    if np.isnan(samples):
        return np.asarray(now - then)
    if measure.score.sums is not None and measure.score.sums.samples is not None:
        draw = stream(0, "two more", measure.place, *([name] if measure.place == "own" else []))
        return with_two_more(now - then, samples, draw)
    from scipy.special import stdtrit

    (score,), (before,) = (_scores(run, measure.column, [[name]]) for run in (together, alone))
    return widened(now - then, score - before, samples, float(stdtrit(samples - 1, 0.975)))


def _samples_behind(run: Run, measure: Measure, name: str) -> float:
    """The number of test samples of an agent's score, if they are few; otherwise NaN."""
    known = run.draws.get(BEHIND + measure.column)
    names = list(dict.fromkeys(run.metrics["agent"]))
    return float("nan") if known is None or name not in names else float(known[names.index(name), 0])


def _scores(run: Run, column: str, groups: Sequence[Sequence[str]]) -> list[float]:
    """The mean of each group after the last round."""
    if column not in run.metrics:
        return [float("nan")] * len(groups)
    last = run.last_round().set_index("agent")[column]
    alone = last.to_dict()
    return [
        float(alone.get(names[0], np.nan)) if len(names) == 1 else float(last.reindex(list(names)).mean())
        for names in groups
    ]


def _draws(run: Run, column: str, groups: Sequence[Sequence[str]]) -> list[Array]:
    """The mean over each group of each resample's score (draws,); one NaN where that is not known."""
    rows = {name: number for number, name in enumerate(dict.fromkeys(run.metrics["agent"]))}
    drawn = run.draws.get(column)
    return [
        np.full(1, np.nan)
        if drawn is None or not len(names) or not rows.keys() >= set(names)
        else np.asarray(drawn[[rows[name] for name in names]].mean(axis=0, dtype=np.float64))
        for names in groups
    ]


def gain_table(run: Run) -> "pd.DataFrame":
    """One row per agent, score and place: alone, together, gain, and its 95 % interval from low to high."""
    import pandas as pd

    rows = [
        {"agent": name, "score": measure.score.name, "place": measure.place} | asdict(gain)
        for measure in measures(run)
        for name, gain in gains(run, measure).items()
    ]
    return pd.DataFrame(rows, columns=["agent", "score", "place", *(field.name for field in fields(Gain))])


def verdicts(run: Run) -> list[str]:
    """Sentences about which agents gained from collaborating. They come first in every report."""
    if "alone" not in run.references:
        return []
    shown = [measure for measure in measures(run) if measure.score == run.summary.scores[0]]
    everyone = len({name for measure in shown for name in _known(run, measure)})
    if everyone == 1:
        sentences = [_of_one(gain, measure) for measure in shown for gain in gains(run, measure).values()]
    else:
        sentences = _of_many(gains(run, shown[0]), shown[0]) if shown else []
    return [*sentences, *_on_few_samples(run)]


def _on_few_samples(run: Run) -> list[str]:
    """A sentence on scores that come from few test samples, if there are some."""
    fewest: dict[str, float] = {}
    titles = []
    for measure in measures(run):
        for name in _known(run, measure):
            samples = _samples_behind(run, measure, name)
            if samples < FEW:
                fewest[name] = min(samples, fewest.get(name, FEW))
                titles.append(measure.score.name)
    if not fewest:
        return []
    shown = listed([f"{name} (at least {samples:.0f})" for name, samples in fewest.items()], "agent")
    if len(fewest) > MOST_NAMED:
        shown = f"those of {len(fewest)} agents (at least {min(fewest.values()):.0f})"
    more = " Those of the log loss hold the truth in about 91 % of cases, not in 95 %." * ("log_loss" in titles)
    return [f"Some intervals come from fewer than {FEW} test samples and are rough: {shown}.{more}"]


def _of_one(gain: Gain, measure: Measure) -> str:
    what = measure.title.replace("each agent's own", "its own")
    sure = f"{signed(gain.gain)} (95 % interval {bounds(gain.low, gain.high)})"
    if gain.verdict == "better":
        return f"Collaborating helped: {what} {sure} against equal training alone."
    if gain.verdict == "worse":
        return f"Collaborating did harm: {what} {sure} against equal training alone."
    return f"That collaborating helps is not shown: {what} {sure} against equal training alone."


def _of_many(by_agent: dict[str, Gain], measure: Measure) -> list[str]:
    by = {
        verdict: [name for name, gain in by_agent.items() if gain.verdict == verdict]
        for verdict in ("better", "worse", "unclear")
    }
    if not any(by.values()):
        up = sum(gain.gain > 0 for gain in by_agent.values())
        return [
            f"Against equal training alone, {up} of {len(by_agent)} agents gained in {measure.title}; "
            "no intervals known."
        ]
    helped = (
        f"Collaborating helped {len(by['better'])} of {len(by_agent)} agents: against equal training alone, the 95 % "
        f"interval of their gain in {measure.title} is above 0."
    )
    nobody = (
        f"Collaborating is not shown to help any of {len(by_agent)} agents: against equal training alone, no 95 % "
        f"interval of a gain in {measure.title} is above 0."
    )
    sentences = [helped if by["better"] else nobody]
    if by["worse"]:
        sentences.append(f"It did harm to {_listed(by['worse'], by_agent)}.")
    if by["unclear"] and not by["better"] and not by["worse"]:
        sentences.append(f"The gains: {_listed(by['unclear'], by_agent)}.")
    elif by["unclear"]:
        sentences.append(f"That it helps is not shown for {_listed(by['unclear'], by_agent)}.")
    return sentences


def _listed(names: Sequence[str], by_agent: dict[str, Gain]) -> str:
    shown = [f"{name} ({signed(by_agent[name].gain)})" for name in names[:12]]
    more = [f"{len(names) - 12} more"] if len(names) > 12 else []
    return listed([*shown, *more], "agent")
