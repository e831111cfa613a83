"""The one place that wires objects: settings in, scenario and agents out."""

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from consilience.agents import models
from consilience.agents.protocol import Agent, Array
from consilience.agents.protocol import describe as describe_agents
from consilience.agents.sklearn_agent import SklearnAgent
from consilience.agents.torch_agent import TorchAgent
from consilience.core.streams import stream
from consilience.data.datasets import known_names, load
from consilience.data.scenario import Scenario, polynomial, split
from consilience.errors import ConsilienceError
from consilience.experiments.settings import Settings
from consilience.runtime.rounds import Method

DATA_VARIABLE = "CONSILIENCE_DATA"
"""The environment variable that names the folder of real data: a place, hence no setting of the experiment."""


def pretrained_efficientnet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """EfficientNet-B0 with the weights of efficientnet-b0 in the folder of data, or else of the Hugging Face hub."""
    folder = os.environ.get(DATA_VARIABLE)
    weights = Path(folder) / "efficientnet-b0" if folder else models.EFFICIENTNET_HUB
    return models.efficientnet(shape, classes, weights)


TORCH_MODELS: dict[str, Callable[[tuple[int, ...], int], nn.Module]] = {
    "cnn": models.cnn,
    "convnet": models.convnet,
    "mlp": models.mlp,
    "linear": models.linear,
    "resnet20": models.resnet20,
    "efficientnet": models.efficientnet,
    "efficientnet-pretrained": pretrained_efficientnet,
}


def build_scenario(settings: Settings) -> Scenario:
    """The data of an experiment; depends on the settings of the split and the seed alone.

    Real data are read from the folder named in the environment variable CONSILIENCE_DATA, if it is set.
    """
    if settings.dataset == "polynomial":
        return polynomial(settings.seed, settings.agents)
    if settings.dataset not in known_names():
        raise ConsilienceError(
            f"unknown dataset {settings.dataset!r}. Known: {', '.join([*known_names(), 'polynomial'])}."
        )
    return split(
        load(settings.dataset, os.environ.get(DATA_VARIABLE) or None, settings.limit, settings.side),
        agents=settings.agents,
        partition=settings.partition,
        alpha=settings.alpha,
        target_fraction=settings.target_fraction,
        test_fraction=settings.test_fraction,
        shared_per_agent=settings.shared_per_agent,
        low_quality=settings.low_quality,
        seed=settings.seed,
        shared_balanced=settings.shared_balanced,
    )


def build_agents(settings: Settings, scenario: Scenario, names: Collection[str] | None = None) -> list[Agent]:
    """Agents as they are before the first round, the same for every method; all, or those called `names`."""
    models = settings.models
    return [
        build_agent(settings, name, models[number % len(models)], share.x, share.y, len(scenario.classes))
        for number, (name, share) in enumerate(scenario.shares.items())
        if names is None or name in names
    ]


def build_agent(settings: Settings, name: str, model: str, x: Array, y: Array, classes: int) -> Agent:
    """One agent with a built-in model and private data (x, y)."""
    if model not in TORCH_MODELS:
        return SklearnAgent(_estimator(model), x, y, name, classes=classes, kind=model, seed=settings.seed)
    seed = int(stream(settings.seed, "initial weights", name).integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = TORCH_MODELS[model](x.shape[1:], classes)
    return TorchAgent(
        network,
        x,
        y,
        name,
        kind=model,
        epochs=settings.epochs,
        batch=settings.batch,
        shared_batch=settings.shared_batch,
        lr=settings.lr,
        seed=settings.seed,
        device=_device(settings.device),
    )


def describe(settings: Settings, scenario: Scenario, agents: list[Agent], method: str) -> dict[str, Any]:
    """The facts of a run that do not change while it runs, for its summary."""
    algorithm = settings.algorithm(method)
    return {
        "method": method,
        "dataset": settings.dataset,
        "task": agents[0].task,
        "rounds": settings.rounds,
        "warmup": algorithm.warmup if isinstance(algorithm, Method) else 0,
        "lam": settings.lam,
        "seed": settings.seed,
        "data": scenario.fingerprint(),
        "classes": list(scenario.classes),
        "shared_samples": len(scenario.shared),
        "agents": describe_agents(agents, scenario.low_quality),
    }


def _device(kind: str) -> str:
    """The device of this process. Workers of one machine, which LOCAL_RANK numbers, take its GPUs in turn."""
    if kind == "cpu":
        return kind
    if not torch.cuda.is_available():
        raise ConsilienceError("the device is cuda, but torch sees no GPU here. Use --set device=cpu.")
    return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"


def _estimator(model: str) -> Any:
    """A scikit-learn estimator by its name in the settings."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    head, _, degree = model.partition("-")
    if head == "polynomial" and degree.isdecimal():
        return make_pipeline(PolynomialFeatures(int(degree)), LinearRegression())
    estimators = {
        "forest": lambda: RandomForestClassifier(30),
        "boosting": lambda: HistGradientBoostingClassifier(
            max_iter=10,
            learning_rate=0.3,
            max_leaf_nodes=8,
            min_samples_leaf=5,
            max_features=0.3,
            l2_regularization=1.0,
            max_bins=32,
            early_stopping=False,
        ),
        "logistic": lambda: LogisticRegression(max_iter=1000, tol=1e-3),
        "neighbours": lambda: KNeighborsClassifier(5),
    }
    if model not in estimators:
        known = [*TORCH_MODELS, *estimators, "polynomial-DEGREE"]
        raise ConsilienceError(f"unknown model {model!r}. Known: {', '.join(known)}.")
    return estimators[model]()
