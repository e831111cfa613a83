"""The parts of a report's page that are about trust and about the bytes sent, ready for JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.core import consensus
from consilience.report.large_runs import LargeRun
from consilience.report.numbers import listed, number, rounded, size
from consilience.runtime.run import Run
from consilience.runtime.summary import AgentSummary
from consilience.tasks.protocol import Array

MOST_TRUST_VALUES = 120_000
"""Trust values on a page. Longer runs show evenly spaced rounds, so that the page stays near one megabyte."""


def first_round(run: Run) -> int | None:
    """The first round of collaboration."""
    if len(run.trust_rounds):
        return int(run.trust_rounds[0])
    active = run.metrics.loc[run.metrics["bytes_sent"] > 0, "round"]
    return int(active.min()) if len(active) else None


def trust_matrices(run: Run, rows: list[int], ends: Array | None) -> dict[str, Any] | None:
    """The trust matrices, thinned out to what a page can hold, and what each agent receives.

    Where these are of some agents only, the first and the last round are, in which `ends` is what all give them.
    """
    if not len(run.trust):
        return None
    most = max(2, MOST_TRUST_VALUES // run.trust[0].size) if ends is None else 2
    shown = np.unique(np.linspace(0, len(run.trust) - 1, min(most, len(run.trust))).round().astype(int))
    return {
        "rounds": run.trust_rounds[shown].tolist(),
        "of": len(run.trust),
        "rows": rows,
        "matrices": rounded(run.trust[shown]),
        "received": rounded(
            np.array([received(w, rows) for w in run.trust[shown]]) if ends is None else ends[: len(shown)]
        ),
    }


def trust_by_class(run: Run, rows: list[int]) -> dict[str, Any] | None:
    """Trust by class in the last round, where the trust rule distinguishes classes."""
    if not run.by_class or run.by_class["trust"].size > MOST_TRUST_VALUES:
        return None
    return {
        "rows": rows,
        "names": run.summary.classes,
        "matrices": rounded(np.moveaxis(run.by_class["trust"], 2, 0)),
        "samples": [int(count) for count in run.by_class["samples"]],
        "unsure": rounded(run.by_class["unsure"]),
    }


def received(w: Array, rows: list[int]) -> Array:
    """Trust that each agent receives from the peers whose rows are known; NaN when there is no such peer.

    Where one row is known, at a site, it is the trust that this site gives.
    """
    if len(rows) == 1:
        return np.asarray(w[0])
    known = np.zeros((w.shape[1], w.shape[1]))
    known[rows] = w
    peers = len(rows) - np.isin(np.arange(len(known)), rows)
    return np.where(peers > 0, consensus.trust_received(known), np.nan)


def agreement(run: Run, rows: list[int], all_of: LargeRun | None) -> dict[str, Any] | None:
    """Disagreement over rounds, what it says in words, and mean self-confidence tr(W)/N."""
    if len(rows) < 2:
        return None
    largest = run.metrics.groupby("round")["disagreement_all"].first()
    by_round = dict(zip(largest.index.tolist(), largest.tolist(), strict=True))
    own = run.trust[:, np.arange(len(rows)), rows].mean(axis=1) if len(run.trust) and all_of is None else np.zeros(0)
    own = own if all_of is None else all_of.confidence
    return {
        "answer": agreement_sentence(by_round, first_round(run)),
        "rounds": largest.index.tolist(),
        "disagreement": rounded(largest.to_numpy()),
        "confidence": {"rounds": run.trust_rounds.tolist(), "values": rounded(own)},
    }


def agreement_sentence(largest: dict[int, float], start: int | None) -> str:
    """Whether agents agree more after the last round than before the first exchange in round `start`.

    >>> agreement_sentence({1: 0.9, 2: 0.8, 3: 0.2}, 3)
    'They agree more: the largest difference between two agents went from 0.800 (round 2) to 0.200 (round 3).'
    """
    rounds = sorted(t for t, value in largest.items() if np.isfinite(value))
    before = [t for t in rounds if start is not None and t < start] or rounds[:1]
    if not rounds or before[-1] == rounds[-1]:
        return "Without an exchange nothing brings them together." if start is None else ""
    first, last = largest[before[-1]], largest[rounds[-1]]
    ratio = last / first if first else 1.0
    answer = "They agree" + (" more" if ratio > 0.05 else "") if ratio <= 0.9 else "They agree less"
    answer = "They agree about as much as before" if 0.9 < ratio <= 1.1 else answer
    course = f"went from {number(first)} (round {before[-1]}) to {number(last)} (round {rounds[-1]})"
    return f"{answer}: the largest difference between two agents {course}."


def trust_sentences(run: Run, rows: list[int], received_by_all: Array) -> list[str]:
    """Who is trusted in the first and in the last exchange, and who is not.

    Args:
        run: A run with trust.
        rows: Positions in the roster of the agents whose trust is known: all, or the one of this site.
        received_by_all: Trust received by each agent in the first and the last round, (2, agents).
    """
    others = [number for number in range(len(run.names)) if rows != [number]]
    if len(rows) not in (1, len(run.names)) or len(others) < 2:
        return []
    first, last = run.trust_rounds[[0, -1]].tolist()
    sentences = []
    for when, ends in zip((f"In the first exchange (round {first})", f"In round {last}"), received_by_all, strict=True):
        trust = {run.names[number]: float(ends[number]) for number in others}
        sentences.append(f"{when} {_most_and_least(trust, 'peers trust' if len(rows) > 1 else 'this site trusts')}")
    return sentences[: 1 + (first != last)]


def _most_and_least(trust: dict[str, float], who_trusts: str) -> str:
    """Whom agents trust most, and whom hardly, beside the mean."""
    mean = sum(trust.values()) / len(trust)
    ranked = sorted(trust, key=lambda name: -trust[name])
    most = [name for name in ranked if trust[name] > 1.2 * mean][:3]
    least = [name for name in reversed(ranked) if trust[name] < 0.5 * mean][:5]
    if not most and not least:
        return f"{who_trusts} everybody about equally ({trust[ranked[-1]]:.2f} to {trust[ranked[0]]:.2f})."
    who, verb = who_trusts.rsplit(" ", 1)
    shown = {name: f"{name} ({trust[name]:.2f})" for name in ranked}
    texts = [f"{verb} {listed([shown[name] for name in most], 'agent')} most"] if most else []
    texts += [f"hardly {verb} {listed([shown[name] for name in least], 'agent')}"] if least else []
    return f"{who} {' and '.join(texts)}; the mean is {mean:.2f}."


def influence(run: Run, numbers: list[int], all_of: LargeRun) -> dict[str, Any]:
    """Each agent's share in the product of all W, and in the first and the last W kept forever."""
    return {
        "product": rounded(all_of.influence[numbers]),
        "first": rounded(all_of.first[numbers]),
        "last": rounded(all_of.last[numbers]),
        "rounds": run.trust_rounds[[0, -1]].tolist(),
    }


def sent(run: Run) -> dict[str, Any]:
    """Bytes that each agent sent, beside what sharing weights costs: up and down, 4 bytes a parameter, every round.

    At a site the total is that of its audit log.
    """
    total = run.metrics.groupby("agent")["bytes_sent"].sum().reindex(run.names)
    active = set(run.metrics.loc[run.metrics["bytes_sent"] > 0, "round"]) | set(run.trust_rounds.tolist())
    agents = run.summary.agents
    obstacle = _obstacle_to_weights(agents)
    cost = [] if obstacle else [2 * 4 * (agent.parameters or 0) * len(active) for agent in agents]
    sent = [None if np.isnan(number) else int(number) for number in total.astype(float)]
    logged = None if run.summary.sent is None else size(run.summary.sent)
    return {"bytes": sent, "rounds": len(active), "weights": cost, "obstacle": obstacle, "logged": logged}


def total_sent(run: Run) -> dict[str, Any]:
    """What all agents sent together, and how many they are."""
    parameters = sum(agent.parameters or 0 for agent in run.summary.agents)
    active = set(run.metrics.loc[run.metrics["bytes_sent"] > 0, "round"]) | set(run.trust_rounds.tolist())
    return {
        "total": int(run.metrics["bytes_sent"].sum()),
        "senders": int(run.metrics["agent"].nunique()),
        "weights_total": 2 * 4 * parameters * len(active),
    }


def _obstacle_to_weights(agents: Sequence[AgentSummary]) -> str:
    """Why these agents could not share weights, and who is in the way; empty when they could."""
    if any(agent.model == "unknown" for agent in agents):
        return "What sharing weights would have cost is unknown: the models of peers elsewhere are not known here."
    kinds: dict[tuple[str, int | None], list[str]] = {}
    for agent in agents:
        kinds.setdefault((agent.model, agent.parameters), []).append(agent.name)
    if len(kinds) == 1 and agents[0].parameters is not None:
        return ""
    groups = []
    for (model, parameters), names in kinds.items():
        shown = ", ".join(names if len(names) <= 12 else [*names[:10], f"and {len(names) - 10} more"])
        what = "whose weights cannot be averaged" if parameters is None else f"{parameters:,} parameters"
        groups.append(f"agent{'s' if len(names) > 1 else ''} {shown}: {model}, {what}")
    return f"Sharing weights would not be possible with these models ({'; '.join(groups)})."
