"""Trust: whom an agent believes. A rule makes it from predictions; how often it is made is a choice of the method."""

from typing import TYPE_CHECKING

from consilience.base.registry import Registry

if TYPE_CHECKING:
    from consilience.methods.trust.protocol import Trust

TRUST = Registry("trust rule", "consilience.methods.trust", "consilience.trust")


def trust_named(name: str) -> "Trust":
    """A rule by its name; without a name the default. A class is made with its default options."""
    found = TRUST.find(name or "default")
    rule: Trust = found() if isinstance(found, type) else found
    return rule
