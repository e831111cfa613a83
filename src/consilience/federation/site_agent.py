"""A site's agent: a built-in model on the site's data, or one that the site's own Python file makes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from consilience.agents.protocol import Agent, missing
from consilience.base.errors import ConsilienceError
from consilience.base.registry import load_plugin
from consilience.base.rows import count
from consilience.core.streams import stream
from consilience.data.files import read_labelled
from consilience.federation.site import LoadedSite
from consilience.runtime.history import Evaluation
from consilience.settings.wiring import agent_for
from consilience.tasks.protocol import Array, Task, checked_predictions


def check_agent_of(loaded: LoadedSite) -> None:
    """Checks that the site's agent can be built and predicts the shared data."""
    agent, _ = build_site_agent(loaded)
    f = agent.predict(loaded.features(loaded.shared))
    checked_predictions(agent.name, f, count(loaded.shared), len(loaded.federation.classes), agent.task)


def build_site_agent(loaded: LoadedSite) -> tuple[Agent, Evaluation]:
    """The site's agent, and the data to evaluate it on."""
    site, classes = loaded.site, loaded.federation.classes
    target = _labelled(loaded, site.target) if site.target else None
    if site.python:
        own = {site.agent: _labelled(loaded, site.test)} if site.test else {}
        agent = _own_agent(loaded)
        _check_backbone(loaded, agent)
        return agent, Evaluation(target=target, own=own)
    if not site.data:
        raise ConsilienceError(f"the model {site.model!r} needs `data`, the site's private training data.")
    x, y = _labelled(loaded, site.data)
    if site.test:
        test = _labelled(loaded, site.test)
    else:
        order = stream(loaded.settings.run.seed, "own test", site.agent).permutation(len(y))
        held_out, rest = np.split(order, [len(y) // 5])
        test, (x, y) = (x[held_out], y[held_out]), (x[rest], y[rest])
    shape = loaded.features(loaded.shared).shape[1:]
    if x.shape[1:] != shape:
        raise ConsilienceError(
            f"a sample of {site.data} has the shape {x.shape[1:]}, one of the shared data {shape}. "
            "Both need the same features in the same order."
        )
    task, shared = loaded.federation.task, loaded.features(loaded.shared)
    agent = agent_for(loaded.settings, site.agent, site.model, x, y, len(classes), task, shared=shared)
    _check_backbone(loaded, agent)
    return agent, Evaluation(target=target, own={site.agent: test})


def _check_backbone(loaded: LoadedSite, agent: Agent) -> None:
    """Refuses an agent with another backbone than that among whose features the members cross rows."""
    wanted, has = loaded.federation.backbone, getattr(getattr(agent, "transform", None), "fingerprint", "none")
    if wanted and has != wanted:
        raise ConsilienceError(
            f"the members of {loaded.federation.name} cross rows among the features of the backbone {wanted[:12]}, and "
            f"the agent has {has[:12]}. Use the same model and weights, or agree on a file without `backbone`."
        )


def _own_agent(loaded: LoadedSite) -> Agent:
    path = loaded.path(loaded.site.python).resolve()
    module = load_plugin(path)
    make: Callable[..., Any] | None = getattr(module, "make_agent", None)
    if make is None:
        raise ConsilienceError(f"{path} has no function make_agent(name, classes, seed).")
    name, classes = loaded.site.agent, loaded.federation.classes
    agent: Agent = make(name, classes, loaded.settings.run.seed)
    lacking = missing(agent, Agent)
    if lacking:
        raise ConsilienceError(
            f"make_agent in {path} returned {type(agent).__name__}, which does not implement Agent; missing: "
            f"{', '.join(lacking)}."
        )
    agent.name = name
    if missing(agent.task, Task):
        raise ConsilienceError(
            f"the agent of {path} has the task {agent.task!r}. Use consilience.extend.TASKS.find('classification')."
        )
    if agent.task.name != loaded.federation.task or agent.outputs != len(classes):
        raise ConsilienceError(
            f"the agent of {path} does {agent.task.name}; for {loaded.federation.task} it must predict the "
            f"{len(classes)} {agent.task.outputs_are} {', '.join(classes)}."
        )
    return agent


def _labelled(loaded: LoadedSite, name: str) -> tuple[Array, Array]:
    x, y = read_labelled(
        loaded.path(name),
        loaded.site.label,
        loaded.federation.classes,
        loaded.columns,
        task=loaded.federation.task,
        table=hasattr(loaded.shared, "iloc"),
        side=loaded.site.side,
    )
    return loaded.features(x), y
