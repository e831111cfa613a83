"""Private agents in a run: their plan before it, what they have spent after every round, and when nobody may go on."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent
from consilience.privacy.mechanism import Mechanism
from consilience.runtime.group import Group, Scores
from consilience.runtime.summary import Summary

EPSILON, STOPPED = "epsilon", "budget_spent"
"""Columns of the metrics of a run with private agents."""


def mechanism_of(agent: Agent) -> Mechanism | None:
    """What protects an agent's private rows, if anything does."""
    return cast(Mechanism | None, getattr(agent, "mechanism", None))


def plan(agents: Iterable[Agent], rounds: int) -> None:
    """Every private agent chooses its noise for so many rounds."""
    for agent in agents:
        if mechanism := mechanism_of(agent):
            mechanism.plan(rounds)


def measure(team: LocalAgents, scores: Scores) -> None:
    """Adds epsilon so far, and whether the budget is spent, to the scores of this process's agents, if any is private.

    Both are NaN for an agent that promises nothing.
    """
    found = {agent.name: mechanism_of(agent) for agent in team}
    if not any(found.values()):
        return
    for name, mechanism in found.items():
        scores[name][EPSILON] = mechanism.record() if mechanism else float("nan")
        scores[name][STOPPED] = float(mechanism.stopped > 0) if mechanism else float("nan")


def all_stopped(scores: Scores, roster: Sequence[str]) -> bool:
    """Whether the whole roster is here and nobody may train any more. A site goes on, and says what it said last."""
    return len(scores) == len(roster) and all(one.get(STOPPED) == 1 for one in scores.values())


def with_costs(summary: Summary, team: LocalAgents, group: Group) -> Summary:
    """The summary with what the private agents of all processes have spent."""
    tables = {agent.name: mechanism.spent().table() for agent in team if (mechanism := mechanism_of(agent))}
    texts = {name: np.frombuffer(json.dumps(table).encode(), np.uint8) for name, table in tables.items()}
    found = {name: json.loads(text.tobytes()) for name, text in group.from_first(group.to_first(texts)).items()}
    return replace(summary, agents=[replace(one, privacy=found.get(one.name, {})) for one in summary.agents])
