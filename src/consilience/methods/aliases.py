"""Methods that are combinations of the parts of consensus, each with its formula and its paper.

An alias returns the fields of `Consensus` that define it. For `paper`, `naive`, `static` and `every-K` other options
are those of the method in the settings; for the others they are the defaults.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

from consilience.core.wire import Wire
from consilience.methods.learning.joint import Joint
from consilience.methods.learning.separate import OneSet, Revisit, Sequential
from consilience.methods.trust.ktpfl import KTpFL
from consilience.methods.trust.labels import FilteredMean, MeanLogits, SharpenedMean, Vote
from consilience.methods.trust.simple import Default, Paper, Uniform


@final
@dataclass(frozen=True)
class Alias:
    """A name for a combination of parts."""

    name: str
    title: str
    parts: dict[str, Any]

    def of(self, like: Any, fresh: Any) -> Any:
        """The combination. Other options are those of `like`, or of `fresh` if the alias changes how agents learn."""
        return replace(fresh if "learning" in self.parts else like, **self.parts)

    def fits(self, method: Any) -> bool:
        """Whether a method has the parts of this combination, whatever their options."""
        fields = _USUAL | self.parts
        return all(_same_kind(getattr(method, name), value) for name, value in fields.items() if name != "wire")


ALIASES: dict[str, Alias] = {}
_USUAL = {"learning": Joint(), "schedule": "dynamic"}
"""Parts of an alias that does not name others."""


def _alias(name: str, title: str) -> Callable[[Callable[[], dict[str, Any]]], Callable[[], dict[str, Any]]]:
    """A decorator that gives a combination its name."""

    def register(parts: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        ALIASES[name] = Alias(name, title, parts())
        return parts

    return register


@_alias("paper", "consensus (paper)")
def paper() -> dict[str, Any]:
    """w_ij ~ 1/n* sum_x beta_i(x) cos(f_i(x), f_j(x)) in every round (Fan, Mendler-Dünner and Jaggi, 2023)."""
    return {"trust": Paper(), "schedule": "dynamic", "mean": "arithmetic", "most_samples": 0.0, "duals": 0.0}


@_alias("naive", "naive")
def naive() -> dict[str, Any]:
    """w_ij = 1/N: all agents count the same."""
    return {"trust": Uniform(), "schedule": "dynamic"}


@_alias("fedmd", "FedMD")
def fedmd() -> dict[str, Any]:
    """psi = softmax(1/N sum_j z_j), z_j the logits of agent j; digest psi, then revisit (Li and Wang, 2019).

    With `shared_labels` agents first train on the shared data with their true labels. Where the paper has a distance
    between logits, this is the cross-entropy with psi. All shared data are used in every round.
    """
    return {"trust": MeanLogits(), "learning": Revisit()}


@_alias("ds-fl", "DS-FL")
def ds_fl() -> dict[str, Any]:
    """psi = softmax(1/T 1/N sum_j f_j); train on private data, publish, distil psi (Itahara et al., 2021).

    All shared data are used in every round, and the server has no model.
    """
    return {"trust": SharpenedMean(), "learning": Sequential()}


@_alias("fedct", "FedCT")
def fedct() -> dict[str, Any]:
    """psi = one-hot argmax_c #{j : argmax f_j = c}; agents train on D_i and (X*, psi) (Abourayya et al., 2025).

    Only the most probable class of each sample is published, one byte for up to 256 classes.
    """
    return {"trust": Vote(), "learning": OneSet(), "wire": Wire("label")}


@_alias("cronus", "Cronus")
def cronus() -> dict[str, Any]:
    """psi(x) = the mean of the f_j(x) that a spectral filter keeps; agents train on D_i and (X*, psi).

    Chang et al., Cronus: robust and heterogeneous collaborative learning with black-box knowledge transfer (2019).
    """
    return {"trust": FilteredMean(), "learning": OneSet()}


@_alias("kt-pfl", "KT-pFL")
def kt_pfl() -> dict[str, Any]:
    """w by descent on sum_i KL(sum_j w_ij f_j || f_i) + rho |w - 1/N|^2 (Zhang et al., 2021).

    Agents train on private data, publish, and distil psi.
    """
    return {"trust": KTpFL(), "learning": Sequential()}


def alias_named(name: str, like: Any, fresh: Any) -> Any:
    """The combination of this name, or None. `like` is the consensus method in the settings, `fresh` the default one.

    static and every-K keep the trust rule of `like`, unless it cannot be kept over rounds or is that of `naive`.
    """
    if name in ALIASES:
        alias = ALIASES[name]
        return like if "learning" in alias.parts and alias.fits(like) else alias.of(like, fresh)
    if name == "static" or name.startswith("every-"):
        base = like if isinstance(like.learning, Joint) else fresh
        return replace(base, schedule=name, trust=Paper() if isinstance(base.trust, Default | Uniform) else base.trust)
    return None


def alias_of(method: Any) -> Alias | None:
    """The alias of a method's combination of parts, if it has one."""
    return next((alias for alias in ALIASES.values() if alias.fits(method)), None)


def _same_kind(value: Any, other: Any) -> bool:
    return value == other if isinstance(other, str) else type(value) is type(other)
