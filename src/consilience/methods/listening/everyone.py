"""Everyone hears everyone who is there."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from consilience.agents.local_agents import LocalAgents
from consilience.base.options import Options
from consilience.core.labels import pseudo_labels
from consilience.core.trust import restrict
from consilience.methods.listening import LISTENING
from consilience.methods.listening.protocol import Heard
from consilience.methods.memory import ConsensusMemory
from consilience.methods.mixing import Mixing, View
from consilience.methods.protocol import Exchange
from consilience.methods.trust.protocol import ByClass
from consilience.tasks.protocol import Array


@dataclass(frozen=True)
class _Belief:
    """What the agents of a view believe."""

    w: Array
    """(heard, heard): trust."""
    psi: dict[str, Array]
    rule: dict[str, Array]
    """What the trust rule keeps."""
    rows: dict[str, Array]
    """Trust by agent in the whole roster, NaN in whom it has not heard; empty where trust was not made."""
    by_class: ByClass | None = None


@LISTENING.add("everyone")
@final
@dataclass(frozen=True)
class Everyone(Options):
    """H_i(t) = all that are there. An attacker may tell some agents something else; these judge by what they heard."""

    def listen(
        self,
        mixing: Mixing,
        agents: LocalAgents,
        exchange: Exchange,
        t: int,
        own: dict[str, Array],
        memory: ConsensusMemory,
        seed: int,
    ) -> Heard:
        """f_j by exchange; then w_ij and psi_i, from what all have heard and, for victims, from what they were told."""
        roster, answer = exchange.roster, exchange.gather(t, own)
        t, received = max(t, answer.number), answer.predictions
        heard = tuple(name for name in roster if name in received)
        present = np.array([name in received for name in roster])
        local = np.array([roster.index(name) for name in agents.names])
        judges = tuple(name for name in agents.names if name in heard)
        if not heard:
            alone = _over_roster(np.zeros((0, 0)), local, present)
            return Heard(t, heard, received, alone, {}, memory, answer.sent)
        f = np.stack([received[name] for name in heard])
        belief = _believe(mixing, View(judges, heard, f), agents, t, memory, memory.rule, present, local)
        w, psi = belief.w, belief.psi
        kept = {name: replace(memory.of(name), trust=row, rule={}) for name, row in belief.rows.items()}
        now = ConsensusMemory(belief.rule, kept or memory.agents)
        for told, victims in _victims(answer.told, psi):
            f = np.stack([told.get(name, received[name]) for name in heard])
            rule = memory.of(victims[0]).rule
            view = _believe(mixing, View(judges, heard, f), agents, t, memory, rule, present, local)
            for name in victims:
                w[heard.index(name)], psi[name] = view.w[heard.index(name)], view.psi[name]
                row = view.rows.get(name, memory.of(name).trust)
                now = ConsensusMemory(now.rule, now.agents | {name: replace(now.of(name), trust=row, rule=view.rule)})
        by_class = _rows_by_class(belief.by_class, local, present)
        return Heard(t, heard, received, _over_roster(w, local, present), psi, now, answer.sent, by_class)


def _believe(
    mixing: Mixing,
    view: View,
    agents: LocalAgents,
    t: int,
    memory: ConsensusMemory,
    rule: dict[str, Array],
    present: NDArray[np.bool_],
    local: NDArray[np.intp],
) -> _Belief:
    """w by the rule if it is due or somebody new is heard, otherwise the last one; psi_i = sum_j w_ij f_j.

    Pseudo-labels take the place of `view.f`, which is not needed afterwards.
    """
    trust = _last_trust(memory, agents.names, local, len(present))
    unknown = np.isnan(trust[np.ix_(local, present)][present[local]]).any()
    rows, by_class = dict[str, Array](), None
    labels: Array | list[Array] | None = None
    if unknown or mixing.is_due(t):
        result = mixing.judge(view, agents, t, rule)
        rule, labels, by_class = result.memory, result.labels, result.by_class
        trust = np.full_like(trust, np.nan)
        trust[np.ix_(present, present)] = result.trust
        rows = dict(zip(agents.names, trust[local], strict=True))
    w = restrict(trust[present], present)
    if labels is None:
        mixed = pseudo_labels(w, view.f, out=view.f)
        labels = [mixed[view.names.index(name)] for name in view.agents]
    return _Belief(w, dict(zip(view.agents, labels, strict=True)), rule, rows, by_class)


def _last_trust(memory: ConsensusMemory, names: tuple[str, ...], local: NDArray[np.intp], agents: int) -> Array:
    """The trust that was made last (roster, roster); NaN for what this process does not know."""
    matrix = np.full((agents, agents), np.nan)
    for name, row in zip(names, local, strict=True):
        trust = memory.of(name).trust
        if trust is not None:
            matrix[row] = trust
    return matrix


def _victims(told: dict[str, dict[str, Array]], psi: dict[str, Array]) -> list[tuple[dict[str, Array], list[str]]]:
    """What agents of this process were told alone, each with all who were told the same."""
    groups: dict[int, tuple[dict[str, Array], list[str]]] = {}
    for name in psi:
        if told.get(name):
            groups.setdefault(id(told[name]), (told[name], []))[1].append(name)
    return list(groups.values())


def _rows_by_class(by_class: ByClass | None, local: NDArray[np.intp], present: NDArray[np.bool_]) -> dict[str, Array]:
    """Trust by class of this process's agents over the roster, (agents, roster, classes), as it is recorded."""
    if by_class is None:
        return {}
    full = np.zeros((len(present), len(present), len(by_class.samples)))
    full[np.ix_(present, present)] = np.moveaxis(by_class.trust, 0, 2)
    return {"trust": full[local], "samples": by_class.samples, "unsure": by_class.unsure}


def _over_roster(w: Array, local: NDArray[np.intp], present: NDArray[np.bool_]) -> Array:
    """Rows of this process's agents over the roster. An agent whom nobody heard believes only itself this round."""
    full = np.eye(len(present))
    full[present] = 0
    full[np.ix_(present, present)] = w
    return full[local]
