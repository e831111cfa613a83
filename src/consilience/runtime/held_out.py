"""What a run keeps so that its models can be calibrated and combined: predictions for rows that no model has seen.

Nothing of it is published. An agent that promises privacy keeps nothing: what is fitted to its rows has no bound.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from consilience.agents.calibration import Calibration, calibrated
from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent, HoldsOut, implements
from consilience.base.rows import count, take
from consilience.runtime.history import MOST_DRAWN, Evaluation
from consilience.runtime.privacy_budget import mechanism_of
from consilience.tasks.protocol import Array, Task

Held = dict[str, dict[str, Array]]
"""By agent: kept and kept_y, own and own_y, target and target_y (predictions and labels), counts of classes,
and `pooled` where dual variables made the agents one."""
Measured = tuple[dict[str, float], dict[str, Array]]
"""Scores, and their values on resamples, by column."""
MOST_VALUES = 5_000_000
"""Predictions on the target domain that a run keeps, of all agents; beyond that some of the rows, evenly spread."""
SHOWN = ("log_loss", "calibration_error")
"""Scores of the home model, beside the first of the task."""


def held_out(agents: LocalAgents, evaluation: Evaluation, of_all: int, pooled: bool = False) -> Held:
    """What is kept of the agents of this process, in a run of `of_all`; nothing if these are more than `MOST_DRAWN`.

    Of agents that dual variables made one, `pooled`, only of rows that were never trained on.
    """
    if of_all > MOST_DRAWN:
        return {}
    return {agent.name: _held(agent, evaluation, of_all, pooled) for agent in agents if mechanism_of(agent) is None}


def _held(agent: Agent, evaluation: Evaluation, of_all: int, pooled: bool) -> dict[str, Array]:
    counts = agent.class_counts
    if counts and agent.task.has_classes:
        counts = counts + [0] * (agent.outputs - len(counts))
    elif counts:
        counts = [*counts, agent.samples]
    held = {"counts": np.array(counts, dtype=np.int64)} | ({"pooled": np.ones(1)} if pooled else {})
    if implements(agent, HoldsOut):
        f, y = cast(HoldsOut, agent).held_out(not pooled)
        if len(y):
            held |= {"kept": f, "kept_y": y}
    if agent.name in evaluation.own and count(evaluation.own[agent.name][0]):
        x, y = evaluation.own[agent.name]
        held |= {"own": agent.predict(x), "own_y": y}
    if evaluation.target is not None:
        x, y = evaluation.target
        most = max(1, MOST_VALUES // (of_all * agent.outputs))
        if len(y) > most:
            rows = np.linspace(0, len(y) - 1, most).astype(np.intp)
            x, y = take(x, rows), y[rows]
        held |= {"target": agent.predict(x), "target_y": y}
    return held


def calibration_of(task: Task, together: Mapping[str, Array], alone: Mapping[str, Array] | None) -> Calibration:
    """The calibration of one agent, from what runs kept of it and of its copy that trained alone."""
    f, y = together.get("kept"), together.get("kept_y")
    other = None if alone is None or f is None else alone.get("kept")
    if alone is not None and f is not None and (other is None or other.shape != f.shape):
        f = y = other = None
    return calibrated(task, together["counts"].tolist(), f, y, other, alone is not None, "pooled" in together)


def measured(name: str, task: Task, known: Mapping[str, tuple[Array, Array]], draws: bool = True) -> Measured:
    """Scores of predictions with their labels, by place (own or target): the task's first score and those `SHOWN`.

    Without `draws` the scores alone.
    """
    scores = [score for score in task.scores if score is task.scores[0] or score.name in SHOWN]
    stored: Any = SimpleNamespace(name=name, task=SimpleNamespace(scores=scores), predict=lambda rows: rows)
    evaluation = Evaluation(None, known.get("target"), {name: known["own"]} if "own" in known else {})
    return evaluation.scores(stored, None), evaluation.draws(stored, None) if draws else {}


def models_of(
    calibration: Calibration, together: Mapping[str, Array], alone: Mapping[str, Array] | None, place: str
) -> dict[str, Array]:
    """Predictions at a place (own or target) by model: alone, together and, as `home`, the one to use there."""
    if place not in together:
        return {}
    f, other = together[place], None if alone is None else alone.get(place)
    if other is None and calibration.needs_alone and place == "own":
        return {}
    best = calibration.at_home(f, other) if place == "own" else calibration.on_target(f)
    return ({} if other is None else {"alone": other}) | {"together": f, "home": best}
