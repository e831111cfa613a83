"""Methods that are combinations of the parts of consensus, each with its formula and its paper.

An alias gives the fields of `Consensus` that make it what it is. `paper`, `naive`, `static` and `every-K` keep all
other options of the method beside which they are named; the others start from the defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

from consilience.core.wire import Wire
from consilience.methods.learning.joint import Joint
from consilience.methods.learning.one_set import OneSet
from consilience.methods.learning.revisit import Revisit
from consilience.methods.learning.sequential import Sequential
from consilience.methods.trust.default import Default
from consilience.methods.trust.ktpfl import KTpFL
from consilience.methods.trust.labels import FilteredMean, MeanLogits, SharpenedMean, Vote
from consilience.methods.trust.paper import Paper
from consilience.methods.trust.uniform import Uniform


@final
@dataclass(frozen=True)
class Alias:
    """A name for a combination of parts."""

    name: str
    title: str
    parts: Callable[[], dict[str, Any]]

    def of(self, like: Any, fresh: Any) -> Any:
        """The combination, with the other options of `like`, or of a `fresh` one if agents learn in another way."""
        parts = self.parts()
        return replace(fresh if "learning" in parts else like, **parts)

    def fits(self, method: Any) -> bool:
        """Whether a method is this combination: parts of the same kinds, whatever their options."""
        parts = {"learning": Joint(), "schedule": "dynamic"} | self.parts()
        return all(_same_kind(getattr(method, name), part) for name, part in parts.items() if name != "wire")


ALIASES: dict[str, Alias] = {}


def alias(name: str, title: str) -> Callable[[Callable[[], dict[str, Any]]], Callable[[], dict[str, Any]]]:
    """A decorator that gives a combination its name."""

    def register(parts: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        ALIASES[name] = Alias(name, title, parts)
        return parts

    return register


@alias("paper", "consensus (paper)")
def paper() -> dict[str, Any]:
    """w_ij ~ 1/n* sum_x beta_i(x) cos(f_i(x), f_j(x)), made in every round (Fan, Mendler-Dünner and Jaggi, 2023)."""
    return {"trust": Paper(), "schedule": "dynamic"}


@alias("naive", "naive")
def naive() -> dict[str, Any]:
    """w_ij = 1/N: everyone counts the same."""
    return {"trust": Uniform(), "schedule": "dynamic"}


@alias("fedmd", "FedMD")
def fedmd() -> dict[str, Any]:
    """psi = softmax(1/N sum_j z_j), z_j the logits of agent j; digest psi, then revisit (Li and Wang, 2019).

    With `shared_labels` agents first train on the shared data with their true labels; without, there is only the
    warm-up. The paper's distance between logits is here the cross-entropy with psi. All shared data are used in every
    round.
    """
    return {"trust": MeanLogits(), "learning": Revisit()}


@alias("ds-fl", "DS-FL")
def ds_fl() -> dict[str, Any]:
    """psi = softmax(1/T 1/N sum_j f_j); train on private data, publish, distil psi (Itahara et al., 2021).

    All shared data are used in every round, and there is no model at a server.
    """
    return {"trust": SharpenedMean(), "learning": Sequential()}


@alias("fedct", "FedCT")
def fedct() -> dict[str, Any]:
    """psi = one-hot argmax_c #{j : argmax f_j = c}; everyone trains on D_i and (X*, psi) (Abourayya et al., 2025).

    Only the most probable class of each sample is published, one byte for up to 256 classes.
    """
    return {"trust": Vote(), "learning": OneSet(), "wire": Wire("label")}


@alias("cronus", "Cronus")
def cronus() -> dict[str, Any]:
    """psi(x) = the mean of the f_j(x) that a spectral filter leaves; everyone trains on D_i and (X*, psi).

    Chang et al., Cronus: robust and heterogeneous collaborative learning with black-box knowledge transfer (2019).
    """
    return {"trust": FilteredMean(), "learning": OneSet()}


@alias("kt-pfl", "KT-pFL")
def kt_pfl() -> dict[str, Any]:
    """w by descent on sum_i KL(sum_j w_ij f_j || f_i) + rho |w - 1/N|^2 (Zhang et al., 2021).

    Agents train on private data, publish, and distil psi.
    """
    return {"trust": KTpFL(), "learning": Sequential()}


def alias_named(name: str, like: Any, fresh: Any) -> Any:
    """The combination of this name, or None. `like` is the consensus method beside it, `fresh` one of defaults.

    static and every-K keep the trust rule of `like`, unless it cannot be kept over rounds or is that of `naive`.
    """
    if name in ALIASES:
        known = ALIASES[name]
        return like if "learning" in known.parts() and known.fits(like) else known.of(like, fresh)
    if name == "static" or name.startswith("every-"):
        base = like if isinstance(like.learning, Joint) else fresh
        return replace(base, schedule=name, trust=Paper() if isinstance(base.trust, Default | Uniform) else base.trust)
    return None


def alias_of(method: Any) -> Alias | None:
    """The name of a method's combination of parts, if it has one."""
    return next((known for known in ALIASES.values() if known.fits(method)), None)


def _same_kind(mine: Any, part: Any) -> bool:
    return mine == part if isinstance(part, str) else type(mine) is type(part)
