"""Everyone hears all agents that are present."""

from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from consilience.base.options import Options
from consilience.core.trust import restrict
from consilience.methods.listening import LISTENING
from consilience.methods.listening.protocol import Heard, ListeningContext
from consilience.methods.memory import ConsensusMemory
from consilience.methods.mixing import View
from consilience.methods.trust.protocol import ByClass
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class _Mixture:
    w: Array
    """(heard, heard): trust."""
    psi: dict[str, Array]
    rule: dict[str, Array]
    """Memory of the trust rule."""
    rows: dict[str, Array]
    """New trust by agent over the whole roster, NaN in agents it has not heard; empty if trust was not computed."""
    by_class: ByClass | None = None
    duals: dict[str, Array] | None = None
    deviations: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class _Memory:
    rule: dict[str, Array]
    deviations: dict[str, Array]


@dataclass(frozen=True)
class _Attendance:
    """Who of the roster was heard, and which rows are agents of this process."""

    is_heard: NDArray[np.bool_]
    local_rows: NDArray[np.intp]

    def over_roster(self, w: Array) -> Array:
        """Trust rows of this process's agents over the roster. An agent that was not heard trusts only itself."""
        full = np.eye(len(self.is_heard))
        full[self.is_heard] = 0
        full[np.ix_(self.is_heard, self.is_heard)] = w
        return full[self.local_rows]

    def rows_by_class(self, by_class: ByClass | None) -> dict[str, Array]:
        """Trust by class of this process's agents over the roster, (agents, roster, classes), for the record."""
        if by_class is None:
            return {}
        full = np.zeros((len(self.is_heard), len(self.is_heard), len(by_class.samples)))
        full[np.ix_(self.is_heard, self.is_heard)] = np.moveaxis(by_class.trust, 0, 2)
        return {"trust": full[self.local_rows], "samples": by_class.samples, "unsure": by_class.unsure}


@LISTENING.add("everyone")
@final
@dataclass(frozen=True)
class Everyone(Options):
    """H_i(t) = all agents present. A victim to which an attacker sends other predictions has a view of its own."""

    def listen(self, context: ListeningContext, t: int, own: dict[str, Array], memory: ConsensusMemory) -> Heard:
        """f_j from the exchange; then w_ij and psi_i for the view that all have, and for each view of victims."""
        roster, names, answer = context.exchange.roster, context.agents.names, context.exchange.gather(t, own)
        t, received = max(t, answer.number), answer.predictions
        heard = tuple(name for name in roster if name in received)
        attendance = _Attendance(
            np.array([name in received for name in roster]), np.array([roster.index(name) for name in names])
        )
        if not heard:
            alone = attendance.over_roster(np.zeros((0, 0)))
            return Heard(t, heard, received, alone, {}, memory, answer.sent)
        local = tuple(name for name in names if name in heard)
        view = View(local, heard, np.stack([received[name] for name in heard]))
        mixture = _mix(context, view, t, memory, _Memory(memory.rule, memory.deviations), attendance)
        w, psi, duals = mixture.w, mixture.psi, mixture.duals
        kept = {name: replace(memory.of(name), trust=row, rule={}) for name, row in mixture.rows.items()}
        kept = {name: replace(kept.get(name, memory.of(name)), deviations={}) for name in kept or memory.agents}
        now = ConsensusMemory(mixture.rule, mixture.deviations, kept)
        for told, victims in _victims(answer.told, psi):
            view = View(local, heard, np.stack([told.get(name, received[name]) for name in heard]))
            first = memory.of(victims[0])
            theirs = _mix(
                context,
                view,
                t,
                memory,
                _Memory(first.rule or memory.rule, first.deviations or memory.deviations),
                attendance,
            )
            for name in victims:
                w[heard.index(name)], psi[name] = theirs.w[heard.index(name)], theirs.psi[name]
                row = theirs.rows.get(name, memory.of(name).trust)
                kept[name] = replace(now.of(name), trust=row, rule=theirs.rule, deviations=theirs.deviations)
                if duals is not None and theirs.duals is not None:
                    duals[name] = theirs.duals[name]
        by_class = attendance.rows_by_class(mixture.by_class)
        trust = attendance.over_roster(w)
        return Heard(t, heard, received, trust, psi, now, answer.sent, by_class, duals=duals)


def _mix(
    context: ListeningContext,
    view: View,
    t: int,
    memory: ConsensusMemory,
    kept: _Memory,
    attendance: _Attendance,
) -> _Mixture:
    """w by the rule if it is due or a new agent is heard, otherwise the last w; psi_i = sum_j w_ij f_j.

    Pseudo-labels may overwrite `view.f`, which is not needed afterwards.
    """
    mixing, task, rule = context.mixing, context.agents.first.task, kept.rule
    names, is_heard, local_rows = context.agents.names, attendance.is_heard, attendance.local_rows
    trust = np.full((len(is_heard), len(is_heard)), np.nan)  # the last; NaN where this process does not know it
    for name, row in zip(names, local_rows, strict=True):
        last = memory.of(name).trust
        if last is not None:
            trust[row] = last
    unknown = np.isnan(trust[np.ix_(local_rows, is_heard)][is_heard[local_rows]]).any()
    rows, by_class = dict[str, Array](), None
    labels: Array | list[Array] | None = None
    if unknown or mixing.is_due(t):
        result = mixing.trust_and_labels(view, context.agents, t, rule)
        rule, labels, by_class = result.memory, result.labels, result.by_class
        trust = np.full_like(trust, np.nan)
        trust[np.ix_(is_heard, is_heard)] = result.trust
        rows = dict(zip(names, trust[local_rows], strict=True))
    w = restrict(trust[is_heard], is_heard)
    duals, deviations = None, kept.deviations
    if mixing.in_hindsight:
        deviations = mixing.deviations(view, task, deviations)
        duals = mixing.hindsight(w, view, deviations)
    if labels is None:
        mixed = mixing.labels(w, view, task)
        labels = [mixed[view.names.index(name)] for name in view.agents]
    return _Mixture(w, dict(zip(view.agents, labels, strict=True)), rule, rows, by_class, duals, deviations)


def _victims(told: dict[str, dict[str, Array]], psi: dict[str, Array]) -> list[tuple[dict[str, Array], list[str]]]:
    """Predictions sent to some agents of this process alone, each with the agents that received the same."""
    groups: dict[int, tuple[dict[str, Array], list[str]]] = {}
    for name in psi:
        if told.get(name):
            groups.setdefault(id(told[name]), (told[name], []))[1].append(name)
    return list(groups.values())
