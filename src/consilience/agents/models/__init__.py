"""Built-in models, each with a name and an expected cost. A file here registers its own.

`network` registers a function that makes a torch module from the shape of a sample and the number of outputs,
`estimator` one that makes a scikit-learn style estimator; `MODELS.add` registers a function that builds a whole agent
from an `AgentSpec`, for agents of another kind.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from consilience.agents.backbones.names import HUGGING_FACE, PACKAGED
from consilience.agents.input_cache import Transform
from consilience.agents.protocol import AcceptsMoreClasses, Agent, implements, missing
from consilience.agents.training import Training
from consilience.base.errors import ConsilienceError
from consilience.base.registry import Registry
from consilience.base.rows import Rows
from consilience.core.streams import stream
from consilience.privacy.options import Privacy
from consilience.tasks.protocol import Array, Task

if TYPE_CHECKING:
    from torch import nn

MODELS = Registry("model", "consilience.agents.models", "consilience.models")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class AgentSpec:
    """What an agent is built from: its name, model, private data and options of training."""

    name: str
    model: str
    x: Rows
    y: Array
    outputs: int
    task: Task
    training: Training = field(default_factory=Training)
    seed: int = 0
    device: str = "cpu"
    transform: Transform | None = None
    """How built-in models read `x`, where it is no array."""
    class_names: tuple[str, ...] = ()
    privacy: Privacy = field(default_factory=Privacy)
    title: str = ""
    """How tables call the model, if not by its name."""
    shared: Rows = None
    """The shared rows, by which models standardise that are built on features."""


@dataclass(frozen=True)
class Cost:
    """Microseconds for one sample once through training on one core. Only orders of magnitude count."""

    each: float
    per_value: float = 0.0
    """For each value of the input."""
    refits: bool = False
    """Whether all private and all shared samples pass once a round, instead of `epochs` times in batches."""


COSTS: dict[str, Cost] = {}
"""By model; `UNKNOWN_COST` for others."""
UNKNOWN_COST = Cost(10)
BUILT_IN: dict[str, tuple[str, str]] = {}
"""Networks that can be rebuilt from their name alone, each with its module and its function there."""


def network(name: str, cost: Cost = UNKNOWN_COST) -> Callable[[F], F]:
    """Registers a function (shape of a sample, outputs) -> torch module that returns logits or values.

    Args:
        name: The name of the model.
        cost: What it is expected to cost.
    """

    def register(make: F) -> F:
        MODELS.add(name)(partial(_network_agent, name, make))
        COSTS[name] = cost
        return make

    return register


def network_in(module: str, costs: dict[str, Cost]) -> None:
    """Registers the functions of a module that is imported when one of them is needed, with - for _ in their names."""
    for name, cost in costs.items():
        location = (module, name.replace("-", "_"))
        MODELS.add(name)(partial(_network_agent, name, location))
        BUILT_IN[name] = location
        COSTS[name] = cost


def estimator(
    name: str,
    cost: Cost = UNKNOWN_COST,
    soft_labels: str = "auto",
    values: Callable[[], Any] | None = None,
    private: str = "",
) -> Callable[[F], F]:
    """Registers a function () -> scikit-learn style estimator; for names such as NAME-4 a function (number).

    Args:
        name: The name of the model.
        cost: What it is expected to cost.
        soft_labels: How it learns from pseudo-labels; by default that is found out (`agents/soft_labels.py`).
        values: Makes the estimator that takes its place where values are learned instead of classes.
        private: A network that stands for it where agents are private.
    """

    def register(make: F) -> F:
        def build(spec: AgentSpec) -> Agent:
            if spec.privacy.on:
                if not private:
                    raise ConsilienceError(
                        f"agent {spec.name!r}: {spec.model} cannot be trained privately; only torch models can, and "
                        "noise on what other models predict would have to drown it. Use logistic, linear, mlp, cnn, "
                        "convnet-gn or scattering."
                    )
                return model_named(private)(replace(spec, model=private, title=spec.title or spec.model))
            from consilience.agents.sklearn_agent import SklearnAgent

            wanted = signature(make).parameters.values()
            number = _number(name, spec, bool(wanted), any(p.default is p.empty for p in wanted))
            of_values = spec.task.question_classes(spec.outputs) == 0
            made = values() if values and of_values else make() if number is None else make(number)
            return SklearnAgent(
                made,
                spec.x,
                spec.y,
                spec.name,
                task=spec.task,
                classes=spec.outputs,
                kind=spec.model,
                seed=spec.seed,
                soft_labels=soft_labels,
                transform=spec.transform,
            )

        MODELS.add(name)(build)
        COSTS[name] = cost
        return make

    return register


def _network_agent(name: str, make: "Callable[..., nn.Module] | tuple[str, str]", spec: AgentSpec) -> Agent:
    """An agent around a torch module; its first weights depend on the seed and its name alone."""
    import torch

    from consilience.agents.torch_agent import TorchAgent

    _number(name, spec, takes=False, needs=False)
    function = _function(make)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(spec.seed, "initial weights", spec.name).integers(2**63)))
        x = spec.x if spec.transform is None else spec.transform(spec.x)
        module = function(x.shape[1:], spec.outputs)
    agent = TorchAgent(
        module,
        spec.x,
        spec.y,
        spec.name,
        task=spec.task,
        kind=spec.title or spec.model,
        training=spec.training,
        seed=spec.seed,
        device=spec.device,
        transform=spec.transform,
        privacy=spec.privacy,
    )
    if name in BUILT_IN:
        agent.architecture = (name, tuple(x.shape[1:]), spec.outputs)
    return agent


def network_named(name: str, shape: tuple[int, ...], outputs: int) -> "nn.Module":
    """A built-in network with random weights, into which trained ones are loaded."""
    MODELS.names()
    if name not in BUILT_IN:
        raise ConsilienceError(f"{name!r} is no built-in network. There are {', '.join(sorted(BUILT_IN))}.")
    return _function(BUILT_IN[name])(shape, outputs)


def _function(make: "Callable[..., nn.Module] | tuple[str, str]") -> "Callable[..., nn.Module]":
    """The function itself, or the one that a module has under a name."""
    function: Callable[..., nn.Module] = getattr(import_module(make[0]), make[1]) if isinstance(make, tuple) else make
    return function


def own_agents(name: str, make_agent: Callable[..., Agent], where: str) -> None:
    """Registers a function make_agent(name, x, y, classes, seed) of a file `where` as a model: it makes whole agents.

    `x` are raw rows, `y` labels as the task has them, `classes` their names.
    """

    def build(spec: AgentSpec) -> Agent:
        agent = make_agent(spec.name, spec.x, spec.y, spec.class_names, spec.seed)
        lacking = missing(agent, Agent)
        if lacking:
            raise ConsilienceError(
                f"make_agent in {where} returned {type(agent).__name__}, which does not implement Agent; missing: "
                f"{', '.join(lacking)}."
            )
        agent.name = spec.name
        if agent.task.name != spec.task.name:
            raise ConsilienceError(f"make_agent in {where} made an agent for {agent.task.name}, not {spec.task.name}.")
        if implements(agent, AcceptsMoreClasses):
            cast(AcceptsMoreClasses, agent).accept_classes(spec.outputs)
        if agent.outputs != spec.outputs:
            raise ConsilienceError(
                f"make_agent in {where} made an agent with {agent.outputs} outputs; there are {spec.outputs} "
                f"{spec.task.outputs_are}."
            )
        return agent

    MODELS.add(name)(build)


def model_named(model: str) -> Callable[[AgentSpec], Agent]:
    """The function that builds an agent with this model; NAME-4 is the model NAME with the number 4.

    hf:FOLDER is a linear head on a backbone of Hugging Face.
    """
    known = MODELS.names()
    if model.startswith(HUGGING_FACE):
        known_head: Callable[[AgentSpec], Agent] = MODELS.find(PACKAGED[0])
        return known_head
    head, _, number = model.rpartition("-")
    numbered = model not in known and head in known and number.isdecimal()
    build: Callable[[AgentSpec], Agent] = MODELS.find(head if numbered else model)
    return build


def build_agent(spec: AgentSpec) -> Agent:
    """The agent of a specification."""
    return model_named(spec.model)(spec)


def _number(name: str, spec: AgentSpec, takes: bool, needs: bool) -> int | None:
    """The 4 of NAME-4, if there is one; an error where the model `takes` none, or `needs` one."""
    number = spec.model.removeprefix(name).removeprefix("-")
    if number and not takes:
        raise ConsilienceError(f"the model {name!r} takes no number; {spec.model!r} is not known.")
    if needs and not number:
        raise ConsilienceError(f"the model {name!r} needs a number, such as {name}-4.")
    return int(number) if number else None


def cost_of(model: str) -> Cost:
    """What a model is expected to cost."""
    MODELS.names()
    model = PACKAGED[0] if model.startswith(HUGGING_FACE) else model
    return COSTS.get(model, COSTS.get(model.rpartition("-")[0], UNKNOWN_COST))
