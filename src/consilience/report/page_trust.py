"""The parts of a report's page that are about trust and about the bytes sent, ready for JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.core import consensus
from consilience.report.large_runs import MOST_AGENTS, LargeRun
from consilience.report.numbers import rounded, size
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
    """Disagreement over rounds beside the bound of the ideal dynamics, and mean self-confidence tr(W)/N."""
    if len(rows) < 2:
        return None
    largest = run.metrics.groupby("round")["disagreement_all"].first()
    before, bound = (first_round(run) or 0) - 1, None
    if all_of is not None and before in largest.index and run.sparse is None and len(run.names) <= MOST_AGENTS:
        values = largest[before] * np.r_[1.0, consensus.contraction_bound(run.trust)]
        bound = {"rounds": [before, *run.trust_rounds.tolist()], "values": rounded(values)}
    own = run.trust[:, np.arange(len(rows)), rows].mean(axis=1) if len(run.trust) and all_of is None else np.zeros(0)
    own = own if all_of is None else all_of.confidence
    return {
        "rounds": largest.index.tolist(),
        "disagreement": rounded(largest.to_numpy()),
        "bound": bound,
        "confidence": {"rounds": run.trust_rounds.tolist(), "values": rounded(own)},
    }


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
