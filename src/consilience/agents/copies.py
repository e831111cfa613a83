"""Independent copies of agents."""

from copy import deepcopy

from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError


def copied(agent: Agent) -> Agent:
    """A copy with a model of its own, which shares the attributes listed in `untouched`, such as the data."""
    names = getattr(agent, "untouched", ())
    memo = {id(value): value for value in (getattr(agent, name, None) for name in names) if value is not None}
    try:
        return deepcopy(agent, memo)
    except Exception as error:
        raise ConsilienceError(
            f"agent {agent.name!r} cannot be copied, so that no copy can train alone beside it ({error}). "
            "Give it a method __deepcopy__, or go without gains: baseline=False."
        ) from error
