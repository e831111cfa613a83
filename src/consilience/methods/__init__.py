"""Ways of learning together: one file per method, whose options are the fields of its dataclass."""

from typing import TYPE_CHECKING, Any

from consilience import toml
from consilience.errors import ConsilienceError
from consilience.options import changed, hint
from consilience.registry import Registry

if TYPE_CHECKING:
    from consilience.methods.protocol import Method

METHODS = Registry("method", "consilience.methods", "consilience.methods")


def method_named(name: str, like: "Method | None" = None) -> "Method":
    """A method by its name, such as fedavg or fedprox(mu=0.1), or a short form such as naive; without one, consensus.

    Options that are not given are those of `like` where it is the same kind of method, and the defaults elsewhere.
    """
    head, options = toml.call(name or "consensus", "the method")
    found = _short_form(head, like)
    if found is None:
        kind = METHODS.find(_known(head))
        found = like if like is not None and type(like) is kind else kind()
    return changed(found, options, name) if options else found


def check_rounds(method: "Method", rounds: int) -> None:
    """Refuses fewer rounds than the warm-up has: nobody would collaborate."""
    if rounds < method.warmup:
        raise ConsilienceError(
            f"there are {rounds} rounds, and the warm-up of {method.title} alone has {method.warmup}. Use more rounds, "
            "or a shorter warm-up (the option warmup)."
        )


def _known(name: str) -> str:
    """The name itself; if there is no such method, an error that names them all, short forms included."""
    names = METHODS.names()
    if name not in names:
        names = [*(short for known in names for short in getattr(METHODS.find(known), "short_forms", ())), *names]
        raise ConsilienceError(f"unknown method {name!r}. {hint(name, names)}Known: {', '.join(names)}.")
    return name


def _short_form(name: str, like: "Method | None") -> "Method | None":
    for kind in METHODS.all():
        if hasattr(kind, "short_form"):
            base: Any = like if type(like) is kind else kind()
            found: Method | None = base.short_form(name)
            if found is not None:
                return found
    return None
