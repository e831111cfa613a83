"""Trust rules: how far each agent trusts each peer, from predictions. The method decides how often they are used."""

from typing import TYPE_CHECKING

from consilience.base.registry import Registry

if TYPE_CHECKING:
    from consilience.methods.trust.protocol import Trust

TRUST = Registry("trust rule", "consilience.methods.trust", "consilience.trust")


def trust_named(name: str) -> "Trust":
    """A rule by its name, with default options; `default` without a name."""
    registered = TRUST.find(name or "default")
    rule: Trust = registered() if isinstance(registered, type) else registered
    return rule
