"""Which model to use at home and which on the target domain: in words, in a table, and how far to believe them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.core.calibration import reliability
from consilience.report.gains import Gain, Measure, gains, mean_gain
from consilience.report.numbers import bounds, number, rounded, signed
from consilience.report.tables import INTERVAL, Grid
from consilience.runtime.held_out import SHOWN, models_of
from consilience.runtime.run import Run
from consilience.tasks import task_named
from consilience.tasks.protocol import Array

MODELS = {"own": "the home model", "target": "the model trained together"}
DOMAINS = {"own": "your own domain", "target": "the target domain"}
HEADINGS = {"own": "at home", "target": "on the target domain"}
ALONE = "stay alone"
_SHORT = {MODELS["own"]: "home", MODELS["target"]: "together", ALONE: "alone"}


def domain_gains(run: Run, place: str, score: str = "") -> dict[str, Gain]:
    """Gains over training alone by agent, at home (own) of the home model, on the target domain of the calibrated one.

    Args:
        run: A finished run.
        place: own | target.
        score: The name of a score; by default the first of the task.
    """
    home, measure = run.home, _measure(run, place, score)
    return {} if home is None or measure is None or measure.column not in home.metrics else gains(home, measure)


def _measure(run: Run, place: str, score: str = "") -> Measure | None:
    known = [item for item in run.summary.scores if item.name == score or not score]
    return Measure(known[0], place) if known else None


def choices(run: Run, place: str) -> dict[str, str]:
    """The model to use at a place by agent: better by the first score, or as good and better by the log loss."""
    first, second = domain_gains(run, place), domain_gains(run, place, SHOWN[0])
    return {
        name: MODELS[place]
        if gain.verdict == "better" or (gain.verdict == "unclear" and _is_better(second.get(name)))
        else ALONE
        for name, gain in first.items()
    }


def _is_better(gain: Gain | None) -> bool:
    return gain is not None and gain.verdict == "better"


def advice(run: Run, agent: str) -> list[str]:
    """A sentence for each domain: which model this agent should use there, and why."""
    sentences = []
    for place, domain in DOMAINS.items():
        first, second = (domain_gains(run, place, score).get(agent) for score in ("", SHOWN[0]))
        measure = _measure(run, place)
        if first is None or measure is None:
            continue
        what = f"{measure.score.title} {_sure(first)} over training alone"
        if first.verdict == "better":
            probable = "" if second is None else f", log loss better by {_sure(second)}"
            sentences.append(f"For {domain} use {MODELS[place]}: {what}{probable}.")
        elif second is not None and choices(run, place).get(agent) == MODELS[place]:
            sentences.append(
                f"For {domain} use {MODELS[place]}: its log loss is better by {_sure(second)}. "
                f"That its {measure.score.title} is better is not shown: {_sure(first)}."
            )
        else:
            sentences.append(f"For {domain} {ALONE}: collaborating is not shown to help there ({what}).")
    return sentences


def _sure(gain: Gain) -> str:
    return signed(gain.gain) if np.isnan(gain.low) else f"{signed(gain.gain)} ({bounds(gain.low, gain.high)})"


def home_sentences(run: Run) -> list[str]:
    """Which model to use where: for one agent its advice, for several how many should use which."""
    names = list(domain_gains(run, "own") or domain_gains(run, "target"))
    if len(names) == 1:
        return advice(run, names[0])
    sentences = []
    for place, heading in HEADINGS.items():
        chosen, measure = choices(run, place), _measure(run, place)
        if not chosen or measure is None or run.home is None:
            continue
        mean, alone = mean_gain(run.home, measure), [name for name, model in chosen.items() if model == ALONE]
        others = len(chosen) - len(alone)
        text = (
            f"{heading.capitalize()}, {others} of {len(chosen)} agents should use {MODELS[place]}: mean "
            f"{measure.score.title} {_sure(mean)} over training alone."
        )
        if alone:
            some = ", ".join(alone[:12]) + (f" and {len(alone) - 12} more" if len(alone) > 12 else "")
            text += f" It is not shown to help {some}."
        sentences.append(text)
    return sentences


def home_grid(run: Run, most: int = 40) -> Grid | None:
    """Per agent at home: alone, together and the home model, its gain over alone, and the model to use where."""
    at_home, together = domain_gains(run, "own"), run.last_round().set_index("agent")
    measure = _measure(run, "own")
    if not at_home or measure is None or len(at_home) > most:
        return None
    own, target = choices(run, "own"), choices(run, "target")
    rows = [
        (
            name,
            number(gain.alone),
            number(together[measure.column].get(name, np.nan)),
            number(gain.together),
            signed(gain.gain),
            bounds(gain.low, gain.high),
            _SHORT[own[name]],
            _SHORT[target[name]] if name in target else "",
        )
        for name, gain in at_home.items()
    ]
    title = f"{measure.score.title.capitalize()} at home (each agent's own test data), and which model to use"
    return Grid(title, ("agent", "alone", "together", "home", "gain", INTERVAL, "use at\nhome", "use\nelsewhere"), rows)


def calibration_grid(run: Run) -> Grid | None:
    """Log loss and calibration error at both places of the models alone, together and calibrated; means over agents."""
    if run.home is None:
        return None
    last, rows = run.last_round(), list[tuple[str, ...]]()
    good = last[~(last["low_quality"] | last["attacker"])]
    for place, heading in HEADINGS.items():
        for score in SHOWN:
            measure = _measure(run, place, score)
            if measure is None or measure.column not in run.home.metrics:
                continue
            gain = mean_gain(run.home, measure)
            cells = (number(gain.alone), number(good[measure.column].mean()), number(gain.together))
            rows.append((f"{measure.score.title} {heading}", *cells, signed(gain.gain), bounds(gain.low, gain.high)))
    headings = ("lower is better", "alone", "together", "calibrated", "gain over alone", INTERVAL)
    title = "How far probabilities can be believed; at home of the home model"
    return Grid(title, headings, rows) if rows else None


def reliability_data(run: Run) -> list[dict[str, Any]]:
    """For the diagram: per place and model the samples, mean confidence and share right in bins, all agents together.

    Only for classes, and without agents whose labels are known to be wrong.
    """
    task, good = task_named(run.summary.task), {agent.name for agent in run.summary.agents if agent.good}
    if not task.has_classes:
        return []
    alone = run.references["alone"].held if "alone" in run.references else {}
    diagrams = []
    for place, heading in HEADINGS.items():
        sure: dict[str, list[tuple[Array, Array]]] = {}
        for name in good & run.calibrations.keys():
            models = models_of(run.calibrations[name], run.held[name], alone.get(name), place)
            for model, f in models.items():
                sure.setdefault(model, []).append((f.max(axis=1), f.argmax(axis=1) == run.held[name][f"{place}_y"]))
        curves = {model: _curve(pairs) for model, pairs in sure.items()}
        if curves:
            diagrams.append({"place": heading, "curves": curves})
    return diagrams


def _curve(pairs: Sequence[tuple[Array, Array]]) -> list[list[float | None]]:
    sure, right = (np.concatenate(column) for column in zip(*pairs, strict=True))
    bins = reliability(sure, right)
    return [rounded(row) for row in bins[bins[:, 0] > 0]]
