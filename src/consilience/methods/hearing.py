"""Consensus with sparse exchange: each agent hears, and judges by itself, a few peers (`core/sparse.py`)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from consilience.agents.protocol import can
from consilience.agents.team import Team
from consilience.core.labels import majority_labels, pseudo_labels
from consilience.core.sparse import Indices, heard_peers
from consilience.core.streams import stream
from consilience.errors import ConsilienceError
from consilience.methods.protocol import Exchange, HearsSome, Memory
from consilience.methods.trust.protocol import Context, opinion
from consilience.tasks.protocol import Array

RULE = "rule/"
"""Before what a trust rule keeps for an agent."""


@dataclass(frozen=True)
class Hearing:
    """Whom the agents of this process heard in a round, and what they made of it; nobody while they train alone."""

    sent: dict[str, int]
    """Bytes, by agent."""
    memory: Memory
    number: int = 0
    """Of the round that was heard, which may be a later one than the one that was asked for."""
    heard: tuple[str, ...] = ()
    received: dict[str, Array] = field(default_factory=dict)
    trust: Array | None = None
    """(agents of this process, roster), or (agents of this process, heard) where `peers` are given."""
    psi: dict[str, Array] = field(default_factory=dict)
    by_class: dict[str, Array] = field(default_factory=dict)
    peers: Indices | None = None
    """(agents of this process, heard): places in the roster of those whom each heard, if not all."""


def wanted_peers(
    agents: Team, exchange: Exchange, memory: Memory, anew: bool, most: int, more: int, seed: int, t: int
) -> dict[str, Indices]:
    """Whom each agent hears in round t; unless trust is made `anew`, the same as before."""
    place = {name: number for number, name in enumerate(exchange.roster)}
    nobody = {"peers": np.zeros(0, dtype=np.int64), "trust": np.zeros(0)}
    wanted: dict[str, Indices] = {}
    for name in agents.names:
        kept = memory.own.get(name, nobody)
        if anew or not len(kept["peers"]):
            draw = stream(seed, "peers", name, t)
            wanted[name] = heard_peers(place[name], len(place), kept["peers"], kept["trust"], most, more, draw)
        else:
            wanted[name] = kept["peers"]
    return wanted


def hear_some(
    agents: Team,
    exchange: Exchange,
    t: int,
    own: dict[str, Array],
    wanted: dict[str, Indices],
    memory: Memory,
    rule: Callable[..., Any] | None,
    majority: bool,
) -> Hearing:
    """Gathers what the `wanted` peers say, and what each agent makes of it, as if nobody else existed.

    Each agent applies the trust `rule` to those whom it heard; without one it keeps its trust in them.
    """
    if not can(exchange, HearsSome):
        raise ConsilienceError(
            "this exchange carries predictions from everyone to everyone, so that nobody can hear a few peers only. "
            "Set peers=0."
        )
    answer = cast(HearsSome, exchange).gather_some(t, own, wanted)
    noise = {agent.name: agent.noise for agent in agents} if agents.first.task.noisy else {}
    psi, kept, trust = dict[str, Array](), dict[str, dict[str, Array]](), []
    for name, peers in wanted.items():
        names = tuple(exchange.roster[peer] for peer in peers)
        told = answer.told.get(name, {})
        f = np.stack([told.get(peer, answer.predictions[peer]) for peer in names])
        before = memory.own.get(name, {})
        row, labels, kept[name] = before.get("trust", np.zeros(0)), None, before
        here = np.array([names.index(name)])
        if rule is not None:
            noises = np.array([noise.get(peer, 1.0 if not noise else np.nan) for peer in names])
            known = {key.removeprefix(RULE): value for key, value in before.items() if key.startswith(RULE)}
            said = opinion(rule, f, Context(agents.first.task, names, here, noises, t, known, True))
            row, labels = said.trust[here[0]], said.labels
            kept[name] = {"peers": peers, "trust": row} | {f"{RULE}{key}": one for key, one in said.memory.items()}
        trust.append(row)
        if majority:
            psi[name] = majority_labels(f)
        else:
            psi[name] = pseudo_labels(row[None], f)[0] if labels is None else labels[0]
    memory, places = Memory(memory.common, kept), np.stack([*wanted.values()])
    return Hearing(answer.sent, memory, t, exchange.roster, answer.predictions, np.stack(trust), psi, peers=places)
