"""Private agents in a run: their plan before it, what they have spent after every round, and when all must stop."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent
from consilience.privacy.mechanism import Mechanism
from consilience.runtime.group import Group, Scores, tables_to_first
from consilience.runtime.summary import Summary

EPSILON, STOPPED = "epsilon", "budget_spent"
"""Columns of the metrics of a run with private agents."""


def mechanism_of(agent: Agent) -> Mechanism | None:
    """The mechanism that protects an agent's private rows, if there is one."""
    return cast(Mechanism | None, getattr(agent, "mechanism", None))


def plan(agents: Iterable[Agent], rounds: int) -> None:
    """Every private agent chooses its noise for this number of rounds."""
    for agent in agents:
        if mechanism := mechanism_of(agent):
            mechanism.plan(rounds)


def measure(local: LocalAgents, scores: Scores) -> None:
    """If any agent of this process is private, adds epsilon so far and whether the budget is spent to all scores.

    Both are NaN for agents that are not private.
    """
    mechanisms = {agent.name: mechanism_of(agent) for agent in local}
    if not any(mechanisms.values()):
        return
    for name, mechanism in mechanisms.items():
        scores[name][EPSILON] = mechanism.record() if mechanism else float("nan")
        scores[name][STOPPED] = float(mechanism.stopped > 0) if mechanism else float("nan")


def all_stopped(scores: Scores, roster: Sequence[str], group: Group) -> bool:
    """Whether no agent of the roster may train any more. A site, which knows only its own, goes on.

    The first process knows the `scores` of all processes and decides for them.
    """
    stopped = len(scores) == len(roster) and all(measures.get(STOPPED) == 1 for measures in scores.values())
    return bool(group.from_first({"stopped": np.array(stopped)})["stopped"])


def with_costs(summary: Summary, local: LocalAgents, group: Group) -> Summary:
    """In the first process the summary with what the private agents of all processes have spent."""
    tables = {agent.name: mechanism.spent().table() for agent in local if (mechanism := mechanism_of(agent))}
    tables = tables_to_first(group, tables)
    return replace(summary, agents=[replace(agent, privacy=tables.get(agent.name, {})) for agent in summary.agents])
