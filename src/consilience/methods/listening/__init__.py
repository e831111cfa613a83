"""Whom agents hear: everyone, or some peers each. A part of consensus."""

from consilience.methods.listening.protocol import Listening
from consilience.registry import Registry

LISTENING = Registry("way of listening", "consilience.methods.listening", "consilience.listening")


def listening_named(name: str) -> Listening:
    """A way of listening by its name; without a name everyone hears everyone."""
    part: Listening = LISTENING.find(name or "everyone")()
    return part
