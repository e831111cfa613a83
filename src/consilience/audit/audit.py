"""The audit of a run: membership, class distributions and canaries, from its folder."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from consilience.agents.protocol import Agent
from consilience.audit.attacks import (
    Measured,
    auc,
    canary_bound,
    guessed_classes,
    log_likelihood,
    margin,
    student,
    true_positives,
)
from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.base.rows import Array, Rows, join
from consilience.data.scenario import Scenario, canaries
from consilience.experiments.run import restore
from consilience.runtime.privacy_budget import mechanism_of
from consilience.runtime.run import load_run
from consilience.settings.presets import settings_of
from consilience.settings.settings import changed
from consilience.settings.wiring import build_scenario, reading, shared_rows
from consilience.tasks import task_named
from consilience.tasks.protocol import require_classes

StepSink = Callable[[int, int, str], None]
"""Receives the steps done, their number, and the current step."""


@dataclass(frozen=True)
class LeakageAttack:
    """How well one attack distinguishes private training rows from other rows of the same agents."""

    name: str
    knows: str
    """What the adversary knows."""
    auc: Measured
    at_1_percent: Measured
    """True positives at 1 % false positives."""
    at_01_percent: Measured
    members: int
    others: int


@dataclass(frozen=True)
class ClassGuess:
    """Distance of the guessed class distribution of an agent's private rows: half the sum of absolute differences."""

    agent: str
    distance: float
    blind: float
    """Distance of a guess without the agent's own predictions: the mean of its peers."""


@dataclass(frozen=True)
class Audit:
    """Results of an audit."""

    attacks: list[LeakageAttack]
    classes: list[ClassGuess]
    canaries: int
    """Number of canaries in all agents."""
    bound: float | None
    """Epsilon is at least this, with 95 % confidence; None without canaries."""
    claimed: float | None
    """The largest epsilon that the agents report; None if some agents are not private."""
    delta: float | None

    @property
    def broken(self) -> bool:
        """Whether the canaries prove a larger leak than claimed."""
        return self.bound is not None and self.claimed is not None and self.bound > self.claimed

    def to_json(self) -> str:
        """The text of audit.json."""
        return json.dumps(asdict(self) | {"broken": self.broken}, indent=2, allow_nan=False)


def audit_run(folder: Path, emit: StepSink = lambda done, of, doing: None) -> Audit:
    """Attacks what the agents of a finished run would release next, and writes audit.json into its folder.

    Args:
        folder: Of the run.
        emit: Receives the steps done, their number, and the current step.
    """
    settings, run = settings_of(folder), load_run(folder)
    if run.summary.federation:
        raise ConsilienceError(
            f"{folder} is the run of a site. An audit needs the private rows of all agents: run the same settings "
            "as an experiment on data of your own, and audit that."
        )
    task = task_named(run.summary.task)
    require_classes(task, f"the audit is for classification; the run in {folder} is {run.summary.task}.")
    steps = len(run.names) + 2
    emit(0, steps, "restoring the agents")
    restored = restore(folder)
    agents, whole = restored.agents, restored.scenario
    plain = build_scenario(changed(settings, {"data.canaries": 0}))
    rows = shared_rows(settings, whole)
    released = {a.name: settings.method.wire.rounded(a.predict(rows)) for a in agents}
    view = _view(agents, whole)
    claims = [mechanism_of(agent) for agent in agents]
    claimed = max(claim.record() for claim in claims if claim) if all(claims) else None
    delta = max(claim.privacy.delta for claim in claims if claim) if all(claims) else None
    count = settings.data.canaries
    students = {}
    for number, (name, f) in enumerate(released.items()):
        emit(number + 1, steps, f"training a student of {name}")
        students[name] = student(rows, f, settings.run.seed, name, view)
    emit(steps - 1, steps, "attacking the private rows")
    audit = Audit(
        attacks=_membership(agents, plain, students),
        classes=_classes(plain, released),
        canaries=count * len(agents),
        bound=_bound(agents, plain, count, settings.run.seed, delta or 0.0) if count else None,
        claimed=claimed if claimed is None or np.isfinite(claimed) else None,
        delta=delta,
    )
    write_atomically(folder / "audit.json", audit.to_json().encode())
    emit(steps, steps, "done")
    return audit


def _view(agents: list[Agent], scenario: Scenario) -> Callable[[Rows], Any]:
    """How an adversary sees rows: through the backbone of the first agent, if it has one, as everybody knows it; tables
    as built-in models read them."""
    transform: Any = getattr(agents[0], "transform", None)
    if hasattr(transform, "raw_features"):
        view: Callable[[Rows], Any] = transform
        return view
    return reading(scenario.shared, scenario.columns) or np.asarray


def _membership(agents: list[Agent], scenario: Scenario, students: dict[str, Any]) -> list[LeakageAttack]:
    """Private training rows against each agent's own test rows, pooled over agents.

    Which rows an agent trains on and which it holds out is drawn from all of its rows: to whoever knows nothing of the
    training, both are equally likely. Where an agent's training labels are wrong that is not so: it is left out.
    """
    scores_of: dict[str, tuple[list[Array], list[Array]]] = {name: ([], []) for name in _KNOWS}
    for agent in agents:
        share = scenario.shares[agent.name]
        if len(share.test_y) < 2 or agent.name in scenario.low_quality:
            continue
        x, y = join(share.x, share.test_x), np.concatenate([share.y, share.test_y])
        by = {name: log_likelihood(predict(x), y) for name, predict in students.items()}
        peers = np.mean([scores for name, scores in by.items() if name != agent.name], axis=0)
        direct = {other.name: margin(other.predict(x), y) for other in agents}
        shadows = np.mean([scores for name, scores in direct.items() if name != agent.name], axis=0)
        scores = (by[agent.name], by[agent.name] - peers, direct[agent.name], direct[agent.name] - shadows)
        for name, values in zip(scores_of, scores, strict=True):
            scores_of[name][0].append(values[: len(share.y)])
            scores_of[name][1].append(values[len(share.y) :])
    attacks = []
    if not any(members for members, _ in scores_of.values()):
        raise ConsilienceError("no agent has good labels and two test rows or more. Raise data.test_fraction.")
    for name, (members, others) in scores_of.items():
        inside, outside = np.concatenate(members), np.concatenate(others)
        at_1, at_01 = (true_positives(inside, outside, rate) for rate in (0.01, 0.001))
        attacks.append(LeakageAttack(name, _KNOWS[name], auc(inside, outside), at_1, at_01, len(inside), len(outside)))
    return attacks


_KNOWS = {
    "student": "the released predictions",
    "student, calibrated": "the released predictions of all agents",
    "model": "the model itself, were it handed out",
    "model, calibrated": "all models, were they handed out",
}


def _classes(scenario: Scenario, released: dict[str, Array]) -> list[ClassGuess]:
    guesses = []
    for name, share in scenario.shares.items():
        truth = np.bincount(share.y, minlength=len(scenario.classes)) / len(share.y)
        blind = np.mean([f.mean(axis=0) for other, f in released.items() if other != name], axis=0)
        distances = [float(np.abs(truth - guess).sum() / 2) for guess in (guessed_classes(released, name), blind)]
        guesses.append(ClassGuess(name, *distances))
    return guesses


def _bound(agents: list[Agent], scenario: Scenario, count: int, seed: int, delta: float) -> float:
    scores, inside = [], []
    for name, own in canaries(scenario, count, seed).items():
        by = {agent.name: margin(agent.predict(own.x), own.y) for agent in agents}
        peers = np.mean([values for other, values in by.items() if other != name], axis=0)
        scores.append(by[name] - peers)
        inside.append(own.inside)
    return canary_bound(np.concatenate(scores), np.concatenate(inside), delta)
