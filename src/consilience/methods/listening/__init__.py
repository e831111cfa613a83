"""Whom agents hear: everyone, or some peers each. A part of consensus."""

from consilience.base.registry import Registry
from consilience.methods.listening.protocol import Listening

LISTENING = Registry("way of listening", "consilience.methods.listening", "consilience.listening")


def listening_named(name: str) -> Listening:
    """A way of listening by its name; `everyone` without a name."""
    listening: Listening = LISTENING.find(name or "everyone")()
    return listening
