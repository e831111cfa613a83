"""The one place that wires objects: settings in, scenario, agents and summary out."""

import os
from collections.abc import Collection
from itertools import cycle

from consilience.agents.models import Order, build_agent, model_named
from consilience.agents.protocol import Agent
from consilience.data.datasets import Dataset, Request, load
from consilience.data.scenario import Scenario, split
from consilience.errors import ConsilienceError
from consilience.places import data_folder
from consilience.runtime.summary import Summary, summarised
from consilience.settings.settings import Settings
from consilience.tasks import task_named
from consilience.tasks.protocol import Array


def build_scenario(settings: Settings) -> Scenario:
    """The data of an experiment; depends on the settings of the split and the seed alone.

    Real data are read from the folder named in the environment variable CONSILIENCE_DATA, if it is set.
    """
    data, agents, seed = settings.data, settings.agents.count, settings.run.seed
    found = load(data.dataset, Request(data_folder(), data.limit, data.side, agents, seed))
    return split(found, data, agents, seed) if isinstance(found, Dataset) else found


def build_agents(settings: Settings, scenario: Scenario, names: Collection[str] | None = None) -> list[Agent]:
    """Agents as they are before the first round, the same for every method; all, or those called `names`."""
    models, outputs = settings.agents.models, len(scenario.classes) or scenario.shared_y.shape[1]
    builders = {model: model_named(model) for model in models}
    dealt = zip(scenario.shares.items(), cycle(models))
    task, device = task_named(scenario.task), _device(settings)
    return [
        builders[model](
            Order(name, model, share.x, share.y, outputs, task, settings.training, settings.run.seed, device)
        )
        for (name, share), model in dealt
        if names is None or name in names
    ]


def agent_for(settings: Settings, name: str, model: str, x: Array, y: Array, outputs: int, task: str) -> Agent:
    """One agent with a built-in model and private data (x, y)."""
    order = Order(name, model, x, y, outputs, task_named(task), settings.training, settings.run.seed, _device(settings))
    return build_agent(order)


def summarise(settings: Settings, scenario: Scenario, agents: list[Agent]) -> Summary:
    """What is known of a run before it begins."""
    return Summary(
        method=settings.method.label,
        title=settings.method.title,
        task=scenario.task,
        rounds=settings.run.rounds,
        warmup=settings.method.warmup,
        shared_samples=len(scenario.shared),
        agents=summarised(agents, scenario.low_quality),
        classes=list(scenario.classes),
        dataset=settings.data.dataset,
        seed=settings.run.seed,
        data=scenario.fingerprint(),
    )


def _device(settings: Settings) -> str:
    """The device of this process. Workers of one machine, which LOCAL_RANK numbers, take its GPUs in turn."""
    if settings.run.device == "cpu":
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        raise ConsilienceError("the device is cuda, but torch sees no GPU here. Use device=cpu.")
    return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
