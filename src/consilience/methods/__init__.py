"""Ways of learning together: one file per method, whose options are the fields of its dataclass."""

from typing import TYPE_CHECKING, Any

from consilience import toml
from consilience.errors import ConsilienceError
from consilience.options import from_table, hint, to_table
from consilience.registry import Registry

if TYPE_CHECKING:
    from consilience.methods.protocol import Method

METHODS = Registry("method", "consilience.methods", "consilience.methods")


def method_named(name: str, like: "Method | None" = None) -> "Method":
    """A method by its name, such as fedavg or fedprox(mu=0.1), or a short form such as naive.

    Options that are not given are those of `like` where it is the same kind of method, and the defaults elsewhere.
    """
    head, bracket, rest = name.partition("(")
    if bracket and not rest.endswith(")"):
        raise ConsilienceError(f"the method {name!r} lacks a closing bracket. Write it as fedprox(mu=0.1).")
    options = toml.parse(f"options = {{{rest[:-1]}}}", f"the method {name!r}")["options"] if bracket else {}
    found = _short_form(head, like)
    if found is None:
        kind = METHODS.find(_known(head))
        found = like if like is not None and type(like) is kind else kind()
    return _with(found, options, name) if options else found


def method_from(value: Any, where: str) -> "Method":
    """A method from what a TOML file holds: its name, or a table with its `name` (default: consensus) and options."""
    if isinstance(value, str):
        return method_named(value)
    if not isinstance(value, dict):
        raise ConsilienceError(f"{where} is {value!r}; it must be a name, or a table with a name and options.")
    options = dict(value)
    return _with(method_named(str(options.pop("name", "consensus"))), options, where)


def method_table(method: "Method") -> dict[str, Any]:
    """A method as a TOML table, complete."""
    return {"name": METHODS.name_of(type(method))} | to_table(method)


def _with(method: "Method", options: dict[str, Any], where: str) -> "Method":
    changed: Method = from_table(type(method), to_table(method) | options, where)
    return changed


def _known(name: str) -> str:
    """The name itself; if there is no such method, an error that names them all, short forms included."""
    names = METHODS.names()
    if name not in names:
        names = [*(short for known in names for short in getattr(METHODS.find(known), "short_forms", ())), *names]
        raise ConsilienceError(f"unknown method {name!r}. {hint(name, names)}Known: {', '.join(names)}.")
    return name


def _short_form(name: str, like: "Method | None") -> "Method | None":
    for known in METHODS.names():
        kind = METHODS.find(known)
        if hasattr(kind, "short_form"):
            base: Any = like if type(like) is kind else kind()
            found: Method | None = base.short_form(name)
            if found is not None:
                return found
    return None
