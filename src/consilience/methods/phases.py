"""A round in two phases: private data first, then the shared data alone, for those agents that can."""

from typing import cast

from consilience.agents.protocol import Agent, Digests, Losses, can
from consilience.agents.team import Team
from consilience.rows import Rows


def digests(agent: Agent) -> Digests | None:
    """The agent, if it can learn from the shared data alone."""
    return cast(Digests, agent) if can(agent, Digests) else None


def train_first(agents: Team, shared: Rows) -> dict[str, Losses]:
    """Those who can digest train on their private data; the losses of these."""
    return {agent.name: agent.train(shared, None, 0.0) for agent in agents if digests(agent)}


def after(private: Losses | None, losses: Losses) -> Losses:
    """Of a round with private training, if there was any, and learning from labels apart."""
    if private is None:
        return losses
    return Losses(
        private.local, losses.disagreement, private.trained + losses.trained, private.forward + losses.forward
    )
