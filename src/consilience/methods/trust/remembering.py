"""Rules that remember the lowest trust of all rounds: trust does not come back to who was once far off."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from consilience.base.options import Options, option
from consilience.core.duals import SCALES
from consilience.core.stratified import correlations, voices
from consilience.core.trust_memory import (
    farthest,
    insists,
    is_far_off,
    lowest_trust,
    mean_agreement,
    normalised_rows,
)
from consilience.methods.trust import TRUST, trust_named
from consilience.methods.trust.protocol import (
    Context,
    Trust,
    TrustResult,
    apply_rule,
    label_of_rows,
    needed_probabilities,
)
from consilience.methods.trust.stratified import Stratified
from consilience.tasks.protocol import Array

_OWN = "of base/"
_AWAY = "away/"
"""In the memory of a gate, before the name of an agent: for how many rounds it has not been heard."""


@TRUST.add("lowest")
@final
@dataclass(frozen=True)
class Lowest(Options):
    """w_ij proportional to the lowest trust that the base rule has given i in j in any round so far."""

    base: Trust | Callable[..., Any] = option(Stratified(), "the rule whose trust is remembered", resolve=trust_named)

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """`core.trust_memory.lowest_trust` of the base rule's matrices."""
        w, memory = _base_trust(self, self.base, f, context)
        lowest, memory = _remembered(lambda before: lowest_trust(before, w), context, memory)
        return TrustResult(normalised_rows(lowest), memory=memory)


@TRUST.add("gate")
@final
@dataclass(frozen=True)
class Gate(Options):
    """All peers count the same, but one that was once too far off counts nothing from then on.

    An agent is far off if its agreement with all others (`core.trust_memory.mean_agreement`) is small compared with the
    median, or, with the geometric mean, if its logits are much further from their median than those of most agents are
    (`core.trust_memory.insists`). Fewer than half of the agents are shut out, the farthest first. All agents judge
    alike, so that those which are not shut out have the same trust. An agent always counts itself. With few agents
    nobody is shut out, since there is no telling who of two is wrong. An agent that trained without the others may be
    far from them and is no liar: one that comes later, or returns after many rounds, is shut out for one round, and for
    good when it is far off again.
    """

    threshold: float = option(0.3, "agreement over the median of all, below which an agent is far off", at_least=0)
    furthest: float = option(
        3.0, "deviation of logits over the median of all, above which an agent is far off; 0 = off", at_least=0
    )
    rounds: int = option(1, "rounds in which it must be far off to be shut out", at_least=1)
    fewest: int = option(4, "smallest number of agents among which one can be shut out", at_least=3)
    returning: int = option(
        3,
        "rounds unheard, after which an agent that is far off when it returns is shut out for a round alone",
        at_least=1,
    )
    duplicate_power: float = option(
        30.0, "power of the correlation from which similar agents share one voice; 0 = every agent counts", at_least=0
    )

    def __call__(self, f: Array, context: Context) -> TrustResult:
        """1 for peers that are not shut out, rows normalised. The memory has the rounds in which each was far off."""
        probabilities = needed_probabilities(self, f, context)
        rho = correlations(probabilities, label_of_rows(f, context))
        c = mean_agreement(rho, voices(rho, self.duplicate_power))
        far_off = is_far_off(c, self.threshold)
        if self.furthest and context.scale:
            insisting = insists(SCALES[context.scale][0](probabilities.astype(np.float64)), self.furthest)
            far_off, c = far_off | insisting, np.where(insisting, -np.inf, c)
        far_off &= len(f) >= self.fewest
        returns = np.array([bool(context.memory) and self._returns(name, context) for name in context.names])
        if context.single:
            far_off &= ~returns
        before = np.array([float(context.memory.get(name, 0)) for name in context.names])
        room = (len(f) - 1) // 2 - int((before >= self.rounds).sum())
        added = np.where(returns, 0.5, 1)
        last = (before < self.rounds) & (before + added >= self.rounds)  # another round shuts it out
        counts = before + added * np.where(last, farthest(c, far_off & last, room), far_off)
        w = np.tile(((counts < self.rounds) & ~(far_off & returns)).astype(np.float64), (len(f), 1))
        w[np.diag_indices(len(f))] = 1
        memory = {key: value for key, value in context.memory.items() if key.removeprefix(_AWAY) not in context.names}
        if not context.single:
            away = [name for name in memory if not name.startswith(_AWAY)]
            memory |= {_AWAY + name: memory.get(_AWAY + name, np.array(0)) + 1 for name in away}
        memory |= {name: np.array(count) for name, count in zip(context.names, counts, strict=True)}
        return TrustResult(normalised_rows(w), memory=memory)

    def _returns(self, name: str, context: Context) -> bool:
        """Whether it is heard for the first time, or for the first time after many rounds."""
        return name not in context.memory or int(context.memory.get(_AWAY + name, 0)) >= self.returning


def _base_trust(
    rule: object, base: Trust | Callable[..., Any], f: Array, context: Context
) -> tuple[Array, dict[str, Array]]:
    """The matrix of the base rule, and its memory as a part of this one."""
    needed_probabilities(rule, f, context)
    own = {key.removeprefix(_OWN): value for key, value in context.memory.items() if key.startswith(_OWN)}
    result = apply_rule(base, f, replace(context, memory=own))
    return result.trust, {f"{_OWN}{key}": value for key, value in result.memory.items()}


def _remembered(
    update: Callable[[Array], Array], context: Context, memory: dict[str, Array]
) -> tuple[Array, dict[str, Array]]:
    """The table of all pairs of agents that were heard, updated, and the memory with it; NaN for pairs not heard yet.

    In sparse exchange only the rows of `context.rows` are remembered, as no others are needed.
    """
    names = json.loads(bytes(context.memory["names"])) if "names" in context.memory else []
    known = len(names)
    names += [name for name in context.names if name not in names]
    columns = np.array([names.index(name) for name in context.names])
    rows = np.arange(len(context.rows)) if context.single else columns
    table = np.full((len(rows) if context.single else len(names), len(names)), np.nan)
    if known:
        before = context.memory["pairs"]
        table[: len(before), :known] = before
    pairs = np.full((len(columns), len(columns)), np.nan)
    own = context.rows if context.single else np.arange(len(columns))
    pairs[own] = table[np.ix_(rows, columns)]
    pairs = update(pairs)
    table[np.ix_(rows, columns)] = pairs[own]
    written = np.frombuffer(json.dumps(names).encode(), np.uint8)
    return pairs, memory | {"names": written, "pairs": table}
