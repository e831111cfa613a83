"""Collaborative learning via prediction consensus (Fan, Mendler-Dünner and Jaggi, NeurIPS 2023).

The public names are loaded when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consilience.agents.protocol import Agent, Losses
    from consilience.agents.sklearn_agent import SklearnAgent
    from consilience.agents.torch_agent import TorchAgent
    from consilience.api import Result, collaborate
    from consilience.core.consensus import (
        contraction_bound,
        influence,
        row_difference,
        scrambling,
        self_confidence,
        stationary,
    )
    from consilience.core.labels import majority_labels, pseudo_labels
    from consilience.core.trust import cosine_trust, entropy_trust, gaussian_trust, ideal_trust, metropolis
    from consilience.errors import ConsilienceError
    from consilience.runtime.exchange import Exchange, Heard, InMemory
    from consilience.runtime.run import Run, load_run

_HOMES = {
    "api": ("Result", "collaborate"),
    "agents.protocol": ("Agent", "Losses"),
    "agents.sklearn_agent": ("SklearnAgent",),
    "agents.torch_agent": ("TorchAgent",),
    "core.consensus": (
        "contraction_bound",
        "influence",
        "row_difference",
        "scrambling",
        "self_confidence",
        "stationary",
    ),
    "core.labels": ("majority_labels", "pseudo_labels"),
    "core.trust": ("cosine_trust", "entropy_trust", "gaussian_trust", "ideal_trust", "metropolis"),
    "errors": ("ConsilienceError",),
    "runtime.exchange": ("Exchange", "Heard", "InMemory"),
    "runtime.run": ("Run", "load_run"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Agent",
    "ConsilienceError",
    "Exchange",
    "Heard",
    "InMemory",
    "Losses",
    "Result",
    "Run",
    "SklearnAgent",
    "TorchAgent",
    "collaborate",
    "contraction_bound",
    "cosine_trust",
    "entropy_trust",
    "gaussian_trust",
    "ideal_trust",
    "influence",
    "load_run",
    "majority_labels",
    "metropolis",
    "pseudo_labels",
    "row_difference",
    "scrambling",
    "self_confidence",
    "stationary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'consilience' has no attribute {name!r}")
    return getattr(import_module(f"consilience.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
