"""An agent around another one, which does everything but what the wrapper changes."""

from typing import Any

from consilience.agents.protocol import Agent


class Wrapper:
    """Passes everything on to `agent`. A subclass changes what it defines, such as `publish`.

    Args:
        agent: The agent inside.

    >>> class Sure(Wrapper):
    ...     def publish(self, shared):
    ...         return self.agent.predict(shared).round()
    """

    def __init__(self, agent: Agent) -> None:
        object.__setattr__(self, "agent", agent)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.agent!r})"

    def __getattr__(self, name: str) -> Any:
        if name == "agent":
            raise AttributeError(name)  # a copy that is not filled yet
        return getattr(self.agent, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) or hasattr(type(self), name) or not hasattr(self.agent, name):
            object.__setattr__(self, name, value)
        else:
            setattr(self.agent, name, value)
