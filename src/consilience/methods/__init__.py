"""Methods of collaborative learning: one file per method, whose options are the fields of its dataclass."""

from typing import TYPE_CHECKING

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import changed, hint
from consilience.base.registry import Registry

if TYPE_CHECKING:
    from consilience.methods.protocol import Method

METHODS = Registry("method", "consilience.methods", "consilience.methods")


def method_names() -> list[str]:
    """The names of all methods and aliases, in alphabetical order."""
    from consilience.methods.aliases import ALIASES

    return sorted([*ALIASES, "static", "every-K", *METHODS.names()])


def method_named(name: str, like: "Method | None" = None) -> "Method":
    """A method by its name, such as fedavg or fedprox(mu=0.1), or an alias such as naive; consensus without a name.

    Other options are those of `like` if it is the same kind of method, and otherwise the defaults.
    """
    from consilience.methods.aliases import alias_named

    head, options = toml.call(name or "consensus", "the method")
    consensus = METHODS.find("consensus")
    method: Method | None = alias_named(head, like if isinstance(like, consensus) else consensus(), consensus())
    if method is None:
        if head not in METHODS.names():
            names = method_names()
            raise ConsilienceError(f"unknown method {head!r}. {hint(head, names)}Known: {', '.join(names)}.")
        kind = METHODS.find(head)
        method = like if like is not None and type(like) is kind else kind()
    return changed(method, options, name) if options else method


def check_rounds(method: "Method", rounds: int) -> None:
    """Raises an error if there are fewer rounds than the warm-up has, as agents would never collaborate."""
    if rounds < method.warmup:
        raise ConsilienceError(
            f"rounds is {rounds}, and the warm-up of {method.title} alone has {method.warmup} rounds. Use more rounds, "
            "or a shorter warm-up (the option warmup)."
        )
