"""The one place that wires objects: settings in, scenario, agents and summary out."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from consilience.agents.backbones.names import is_backbone
from consilience.agents.models import AgentSpec, build_agent, model_named
from consilience.agents.models.backbones import backbone_named
from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.files import data_folder
from consilience.base.rows import Rows, count, fingerprint, take
from consilience.core import many_scores
from consilience.core.attacks import Targeted, attack_name, none
from consilience.core.metrics import accuracy_on
from consilience.core.streams import stream
from consilience.data.columns import Column, brief_list
from consilience.data.datasets import Dataset, Request
from consilience.data.files import csv_files
from consilience.data.loading import is_path, load
from consilience.data.options import Data
from consilience.data.scenario import Scenario, split, with_canaries
from consilience.data.table_notes import class_warnings
from consilience.methods.alone import Alone
from consilience.methods.protocol import Exchange
from consilience.methods.server import ServerMethod
from consilience.runtime.crossed_shared import crossed_number, with_crossed
from consilience.runtime.exchange import InMemory, LyingExchange
from consilience.runtime.history import Evaluation
from consilience.runtime.summary import Summary, summarised
from consilience.settings.heads import heads_notes
from consilience.settings.settings import Settings
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Score, require_classes

ATTACKED_CLASS = "attacked_class"
"""The score of a targeted attack: accuracy on the class that it is about."""


def build_scenario(settings: Settings) -> Scenario:
    """The data of an experiment; depends on the settings of the split and the seed alone.

    Real data are read from the folder named in the environment variable CONSILIENCE_DATA, if it is set.
    """
    data, agents, seed = settings.data, settings.agents.count, settings.run.seed
    dataset = load(data.dataset, request_of(data, agents, seed, settings.agents.models))
    if isinstance(dataset, Dataset):
        for model in filter(is_backbone, dict.fromkeys(settings.agents.models)):
            backbone_named(model).remember(dataset.x)
    if isinstance(dataset, Dataset) and is_path(data.dataset) and dataset.group_names:
        data, agents = replace(data, partition="natural"), len(dataset.group_names)
    scenario = split(dataset, data, agents, seed) if isinstance(dataset, Dataset) else dataset
    if is_path(data.dataset):
        scenario = with_notes(scenario, settings.data)
    return with_canaries(scenario, data.canaries, seed)


def request_of(data: Data, agents: int, seed: int, models: Sequence[str] = ()) -> Request:
    """What the settings ask of a dataset."""
    return Request(
        data_folder(),
        data.limit,
        data.side,
        agents,
        seed,
        data.label,
        data.agent,
        data.task,
        data.types,
        data.drop,
        all_on_backbones(models),
    )


def all_on_backbones(models: Sequence[str]) -> bool:
    """Whether all models are heads on backbones, which read raw rows."""
    return bool(models) and all(map(is_backbone, models))


def with_notes(scenario: Scenario, data: Data) -> Scenario:
    """The scenario with a sentence on which agents have the user's data, and warnings about agents with one class."""
    names = tuple(scenario.shares)
    by = f"no column says whose a row is; partition={data.partition}"
    if data.agent or csv_files(Path(data.dataset)):
        by = f"by the column {data.agent!r}" if data.agent else "one for each file"
    what = "classes" if scenario.task == "classification" else "labels"
    classes = f", {what} {brief_list(scenario.classes)}" if scenario.classes else ""
    shared, target = count(scenario.shared), len(scenario.target_y)
    total = sum(len(share.y) + len(share.test_y) for share in scenario.shares.values()) + shared + target
    first = (
        f"{data.dataset}: {total} rows{classes}. {len(names)} agents ({by}): {brief_list(names)}; {shared} rows are "
        f"shared, {target} are held out to measure on."
    )
    warnings = scenario.warnings
    if scenario.task == "classification":
        warnings += tuple(class_warnings({name: share.y for name, share in scenario.shares.items()}, scenario.classes))
    return replace(scenario, notes=(first, *scenario.notes), warnings=warnings)


def build_agents(settings: Settings, scenario: Scenario, names: Collection[str] | None = None) -> list[Agent]:
    """Agents as they are before the first round, the same for every method; all, or those called `names`."""
    models, outputs = settings.agents.models, len(scenario.classes) or scenario.shared_y.shape[1]
    builders = {model: model_named(model) for model in models}
    dealt = zip(scenario.shares.items(), cycle(models))
    task, device, seed = task_named(scenario.task), _device(settings), settings.run.seed
    made = partial(
        AgentSpec,
        outputs=outputs,
        task=task,
        training=settings.training,
        seed=seed,
        device=device,
        transform=reading(scenario.shared, scenario.columns),
        class_names=scenario.classes,
        privacy=settings.agents.privacy,
        shared=scenario.shared,
    )
    return [
        builders[model](made(name, model, share.x, share.y))
        for (name, share), model in dealt
        if names is None or name in names
    ]


def shared_rows(settings: Settings, scenario: Scenario) -> Rows:
    """The rows that agents learn from together: the shared ones, then those that are crossed from them."""
    number, backbone = crossing_of(settings, scenario)
    return with_crossed(scenario.shared, number, settings.run.seed, [backbone], scenario.columns)


def crossing_of(settings: Settings, scenario: Scenario) -> tuple[int, str]:
    """The number of crossed rows, and the backbone in whose features they are crossed, if it is in features."""
    backbones = [model if is_backbone(model) else "" for model in settings.agents.models]
    if not settings.method.uses_shared:
        return 0, ""
    number = crossed_number(settings.data.crossed, scenario.shared, backbones, scenario.columns)
    return number, backbones[0] if number and len(set(backbones)) == 1 else ""


def agent_for(
    settings: Settings,
    name: str,
    model: str,
    x: Rows,
    y: Array,
    outputs: int,
    task: str,
    transform: Callable[[Rows], Any] | None = None,
    shared: Rows = None,
) -> Agent:
    """One agent with a built-in model and private data (x, y), which it reads through `transform`.

    A head on a backbone standardises its features by the `shared` rows.
    """
    device, seed = _device(settings), settings.run.seed
    order = AgentSpec(
        name, model, x, y, outputs, task_named(task), settings.training, seed, device, transform=transform
    )
    return build_agent(replace(order, privacy=settings.agents.privacy, shared=shared))


def reading(shared: Rows, columns: Sequence[Column] = ()) -> Callable[[Rows], Any] | None:
    """How built-in models read such rows: tables, and arrays with `columns`, by what columns hold; None for others."""
    if not columns and not hasattr(shared, "iloc"):
        return None
    from consilience.data.preprocess import table_preprocessing

    return table_preprocessing(shared, columns)


def summarise(settings: Settings, scenario: Scenario, agents: list[Agent]) -> Summary:
    """What is known of a run before it begins."""
    return Summary(
        method=settings.method.label,
        title=settings.method.title,
        task=scenario.task,
        rounds=settings.run.rounds,
        warmup=settings.method.warmup,
        shared_samples=count(scenario.shared),
        agents=summarised(agents, scenario.low_quality, attackers(settings, scenario)),
        classes=list(scenario.classes),
        dataset=settings.data.dataset,
        seed=settings.run.seed,
        data=data_fingerprint(settings, scenario),
        crossed=crossing_of(settings, scenario)[0],
        attack=attack_name(settings.data.attack) if settings.data.attackers else "",
        notes=[*heads_notes(settings), *scenario.notes],
        warnings=list(scenario.warnings),
    )


def data_fingerprint(settings: Settings, scenario: Scenario) -> str:
    """SHA-256 of all data of a run; where agents promise privacy, of the shared data alone.

    Whoever knows all private rows but one could try each candidate for it against a hash of all.
    """
    return fingerprint(scenario.shared) if settings.agents.privacy.on else scenario.fingerprint()


def attackers(settings: Settings, scenario: Scenario) -> tuple[str, ...]:
    """Names of the attackers."""
    return tuple(name for number, name in enumerate(scenario.shares) if number in settings.data.attackers)


def build_exchange(settings: Settings, scenario: Scenario) -> Exchange:
    """The exchange of a simulation, with attacks if there are attackers."""
    samples = {name: len(share.y) for name, share in scenario.shares.items()}
    within = InMemory(tuple(scenario.shares), settings.method.wire, samples)
    data = settings.data
    if not data.attackers:
        return within
    if data.attack is none:
        raise ConsilienceError("attackers are named, but no attack. Name one, such as attack=flip.")
    task = task_named(scenario.task)
    require_classes(task, f"attacks lie about classes, and {scenario.task} has none. Set attackers=[].")
    if not settings.method.uses_shared and not isinstance(settings.method, Alone):
        what = "weights" if isinstance(settings.method, ServerMethod) else "means of classes"
        raise ConsilienceError(
            f"attackers lie in their predictions, and {settings.method.title} exchanges {what}. Set attackers=[]."
        )
    return LyingExchange(within, attackers(settings, scenario), data.attack, settings.run.seed, settings.method.wire)


def build_evaluation(settings: Settings, scenario: Scenario, names: Collection[str] | None = None) -> Evaluation:
    """The data that agents are scored on: all agents, or those called `names`.

    Under a targeted attack the class that it is about is measured on its own.
    """
    here = scenario.shares if names is None else {name: scenario.shares[name] for name in names}
    own = {name: (share.test_x, share.test_y) for name, share in here.items()}
    more: tuple[Score, ...] = ()
    if isinstance(settings.data.attack, Targeted) and task_named(scenario.task).has_classes:
        source, _ = settings.data.attack.pair(len(scenario.classes))
        title, of_many = f"accuracy on class {source}", partial(many_scores.accuracy_on, source)
        more = (Score(ATTACKED_CLASS, title, partial(accuracy_on, source), of_many=of_many),)
    target, most = (scenario.target_x, scenario.target_y), settings.run.evaluate_sample
    if 0 < most < len(scenario.target_y):  # the same for all agents and methods
        draw = stream(settings.run.seed, "evaluate sample")
        picked = np.sort(draw.choice(len(scenario.target_y), most, replace=False))
        target = take(scenario.target_x, picked), scenario.target_y[picked]
    shared_y = scenario.shared_y if scenario.labels_known else None
    return Evaluation(shared_y, target, own, more, settings.run.evaluate_every)


def _device(settings: Settings) -> str:
    """The device of this process. Workers of one machine, which LOCAL_RANK numbers, take its GPUs in turn."""
    if settings.run.device == "cpu":
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        raise ConsilienceError("the device is cuda, but torch sees no GPU here. Use device=cpu.")
    return f"cuda:{int(os.environ.get('LOCAL_RANK', 0)) % torch.cuda.device_count()}"
