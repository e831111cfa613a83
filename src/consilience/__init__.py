"""Collaborative learning via prediction consensus (Fan, Mendler-Dünner and Jaggi, NeurIPS 2023).

The public names are loaded when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consilience.agents.base import BaseAgent
    from consilience.agents.check import check_agent
    from consilience.agents.models import MODELS, estimator, network
    from consilience.agents.protocol import Agent, Losses
    from consilience.agents.sklearn_agent import SklearnAgent
    from consilience.agents.torch_agent import TorchAgent
    from consilience.agents.wrapper import Wrapper
    from consilience.api import Result, collaborate
    from consilience.base.errors import ConsilienceError
    from consilience.base.options import Options, option
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
    from consilience.core.wire import Wire
    from consilience.data.datasets import Dataset, dataset
    from consilience.export.folder import ExportedModel, load_model
    from consilience.methods import METHODS
    from consilience.methods.alone import Alone
    from consilience.methods.consensus import Consensus
    from consilience.methods.ensemble import Collective
    from consilience.methods.fd import FD
    from consilience.methods.fedavg import FedAvg
    from consilience.methods.feddf import FedDF
    from consilience.methods.feddyn import FedDyn
    from consilience.methods.fedprox import FedProx
    from consilience.methods.learning.one_set import OneSet
    from consilience.methods.learning.revisit import Revisit
    from consilience.methods.learning.sequential import Sequential
    from consilience.methods.listening.sparse import Sparse
    from consilience.methods.protocol import Exchange, Memory, Method, Received, Record, Round, Start
    from consilience.methods.scaffold import Scaffold
    from consilience.methods.server import ServerMethod
    from consilience.methods.trust import TRUST
    from consilience.methods.trust.cosine import Cosine
    from consilience.methods.trust.entropy import Entropy
    from consilience.methods.trust.gaussian import Gaussian
    from consilience.methods.trust.paper import Paper
    from consilience.methods.trust.protocol import Context, Trust, TrustResult
    from consilience.methods.trust.stratified import Stratified
    from consilience.methods.trust.uniform import Uniform
    from consilience.privacy.options import Privacy
    from consilience.runtime.callbacks import Callback
    from consilience.runtime.exchange import InMemory
    from consilience.runtime.loggers.mlflow import MLflow
    from consilience.runtime.loggers.tensorboard import TensorBoard
    from consilience.runtime.loggers.wandb import WandB
    from consilience.runtime.run import Run, load_run
    from consilience.tasks import TASKS
    from consilience.tasks.protocol import Score, Task

_HOMES = {
    "api": ("Result", "collaborate"),
    "agents.base": ("BaseAgent",),
    "agents.check": ("check_agent",),
    "agents.protocol": ("Agent", "Losses"),
    "agents.sklearn_agent": ("SklearnAgent",),
    "agents.torch_agent": ("TorchAgent",),
    "agents.wrapper": ("Wrapper",),
    "core.wire": ("Wire",),
    "data.datasets": ("Dataset", "dataset"),
    "agents.models": ("MODELS", "estimator", "network"),
    "export.folder": ("ExportedModel", "load_model"),
    "methods": ("METHODS",),
    "methods.alone": ("Alone",),
    "methods.collective": ("Collective",),
    "methods.consensus": ("Consensus",),
    "methods.fd": ("FD",),
    "methods.fedavg": ("FedAvg",),
    "methods.feddf": ("FedDF",),
    "methods.feddyn": ("FedDyn",),
    "methods.fedprox": ("FedProx",),
    "methods.learning.one_set": ("OneSet",),
    "methods.learning.revisit": ("Revisit",),
    "methods.learning.sequential": ("Sequential",),
    "methods.listening.sparse": ("Sparse",),
    "methods.protocol": ("Exchange", "Memory", "Method", "Received", "Record", "Round", "Start"),
    "methods.scaffold": ("Scaffold",),
    "methods.server": ("ServerMethod",),
    "methods.trust": ("TRUST",),
    "methods.trust.cosine": ("Cosine",),
    "methods.trust.entropy": ("Entropy",),
    "methods.trust.gaussian": ("Gaussian",),
    "methods.trust.protocol": ("Context", "TrustResult", "Trust"),
    "methods.trust.paper": ("Paper",),
    "methods.trust.stratified": ("Stratified",),
    "methods.trust.uniform": ("Uniform",),
    "options": ("Options", "option"),
    "privacy.options": ("Privacy",),
    "tasks": ("TASKS",),
    "tasks.protocol": ("Score", "Task"),
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
    "runtime.callbacks": ("Callback",),
    "runtime.exchange": ("InMemory",),
    "runtime.loggers.mlflow": ("MLflow",),
    "runtime.loggers.tensorboard": ("TensorBoard",),
    "runtime.loggers.wandb": ("WandB",),
    "runtime.run": ("Run", "load_run"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "FD",
    "METHODS",
    "MODELS",
    "TASKS",
    "TRUST",
    "Agent",
    "Alone",
    "BaseAgent",
    "Callback",
    "Collective",
    "Consensus",
    "ConsilienceError",
    "Context",
    "Cosine",
    "Dataset",
    "Entropy",
    "Exchange",
    "ExportedModel",
    "FedAvg",
    "FedDF",
    "FedDyn",
    "FedProx",
    "Gaussian",
    "InMemory",
    "Losses",
    "MLflow",
    "Memory",
    "Method",
    "OneSet",
    "Options",
    "Paper",
    "Privacy",
    "Received",
    "Record",
    "Result",
    "Revisit",
    "Round",
    "Run",
    "Scaffold",
    "Score",
    "Sequential",
    "ServerMethod",
    "SklearnAgent",
    "Sparse",
    "Start",
    "Stratified",
    "Task",
    "TensorBoard",
    "TorchAgent",
    "Trust",
    "TrustResult",
    "Uniform",
    "WandB",
    "Wire",
    "Wrapper",
    "check_agent",
    "collaborate",
    "contraction_bound",
    "cosine_trust",
    "dataset",
    "entropy_trust",
    "estimator",
    "gaussian_trust",
    "ideal_trust",
    "influence",
    "load_model",
    "load_run",
    "majority_labels",
    "metropolis",
    "network",
    "option",
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
