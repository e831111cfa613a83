"""The section of a report about the bytes sent, and what sharing weights would have cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from consilience.report.numbers import size
from consilience.runtime.run import Run
from consilience.runtime.summary import AgentSummary


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
