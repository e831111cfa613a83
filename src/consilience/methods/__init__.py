"""Ways of learning together: one file per method, whose options are the fields of its dataclass."""

from typing import TYPE_CHECKING

from consilience.base import toml
from consilience.base.errors import ConsilienceError
from consilience.base.options import changed, hint
from consilience.base.registry import Registry

if TYPE_CHECKING:
    from consilience.methods.protocol import Method

METHODS = Registry("method", "consilience.methods", "consilience.methods")


def method_named(name: str, like: "Method | None" = None) -> "Method":
    """A method by its name, such as fedavg or fedprox(mu=0.1), or an alias such as naive; without one, consensus.

    Options that are not given are those of `like` where it is the same kind of method, and the defaults elsewhere.
    """
    from consilience.methods.aliases import ALIASES, alias_named

    head, options = toml.call(name or "consensus", "the method")
    consensus = METHODS.find("consensus")
    method: Method | None = alias_named(head, like if isinstance(like, consensus) else consensus(), consensus())
    if method is None:
        if head not in METHODS.names():
            names = [*ALIASES, "static", "every-K", *METHODS.names()]
            raise ConsilienceError(f"unknown method {head!r}. {hint(head, names)}Known: {', '.join(sorted(names))}.")
        kind = METHODS.find(head)
        method = like if like is not None and type(like) is kind else kind()
    return changed(method, options, name) if options else method


def check_rounds(method: "Method", rounds: int) -> None:
    """Refuses fewer rounds than the warm-up has: nobody would collaborate."""
    if rounds < method.warmup:
        raise ConsilienceError(
            f"there are {rounds} rounds, and the warm-up of {method.title} alone has {method.warmup}. Use more rounds, "
            "or a shorter warm-up (the option warmup)."
        )
