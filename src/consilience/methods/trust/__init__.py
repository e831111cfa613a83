"""Trust: whom an agent believes. A rule makes it from predictions; how often it is made is a choice of the method."""

from dataclasses import is_dataclass
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from consilience.errors import ConsilienceError
from consilience.options import from_table, to_table
from consilience.registry import Registry

if TYPE_CHECKING:
    from consilience.methods.trust.protocol import Trust

TRUST = Registry("trust rule", "consilience.methods.trust", "consilience.trust")
DEFAULT = "default"
"""The rule of the task: entropy for probabilities, gaussian for values."""


def trust_from(value: Any, where: str) -> "Trust | None":
    """A rule from what a TOML file holds: its name, or a table with its `name` and options; None for the default."""
    table = dict(value) if isinstance(value, dict) else {"name": value}
    name = str(table.pop("name", DEFAULT))
    if name == DEFAULT and not table:
        return None
    found: Any = TRUST.find("entropy" if name == DEFAULT else name)
    if hasattr(found, "__dataclass_fields__"):
        found = from_table(found, table, where)
    elif table:
        raise ConsilienceError(f"{where}: the trust rule {name!r} has no options, such as {next(iter(table))!r}.")
    rule: Trust = found() if isinstance(found, type) else found
    return rule


def trust_table(rule: "Trust | None") -> Any:
    """The other way round."""
    if rule is None:
        return {"name": DEFAULT}
    if is_dataclass(rule):
        return {"name": TRUST.name_of(type(rule))} | to_table(rule)
    return {"name": TRUST.name_of(rule if isfunction(rule) else type(rule))}
