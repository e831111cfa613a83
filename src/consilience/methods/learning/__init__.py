"""How an agent learns from its private data and the pseudo-labels in a round. A part of consensus."""

from consilience.base.registry import Registry
from consilience.methods.learning.protocol import Learning

LEARNING = Registry("way of learning", "consilience.methods.learning", "consilience.learning")


def learning_named(name: str) -> Learning:
    """A way of learning by its name; `joint` without a name."""
    learning: Learning = LEARNING.find(name or "joint")()
    return learning
