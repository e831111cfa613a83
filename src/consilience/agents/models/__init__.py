"""Built-in models, each with a name and an expected cost. A file here registers its own.

`network` registers a function that makes a torch module from the shape of a sample and the number of outputs,
`estimator` one that makes a scikit-learn style estimator; `MODELS.add` registers a function that builds a whole agent
from an `Order`, for agents of another kind.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from consilience.agents.protocol import Agent
from consilience.agents.training import Training
from consilience.core.streams import stream
from consilience.errors import ConsilienceError
from consilience.registry import Registry
from consilience.tasks.protocol import Array, Task

if TYPE_CHECKING:
    from torch import nn

MODELS = Registry("model", "consilience.agents.models", "consilience.models")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Order:
    """What is asked of a model: an agent with this name, these private data and this way of training."""

    name: str
    model: str
    x: Array
    y: Array
    outputs: int
    task: Task
    training: Training = field(default_factory=Training)
    seed: int = 0
    device: str = "cpu"


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


def network(name: str, cost: Cost = UNKNOWN_COST) -> Callable[[F], F]:
    """Registers a function (shape of a sample, outputs) -> torch module that returns logits or values."""

    def register(make: F) -> F:
        MODELS.add(name)(partial(_network_agent, make))
        COSTS[name] = cost
        return make

    return register


def network_in(module: str, costs: dict[str, Cost]) -> None:
    """Registers the functions of a module that is imported when one of them is needed, with - for _ in their names."""
    for name, cost in costs.items():
        MODELS.add(name)(partial(_network_agent, (module, name.replace("-", "_"))))
        COSTS[name] = cost


def estimator(name: str, cost: Cost = UNKNOWN_COST) -> Callable[[F], F]:
    """Registers a function () -> scikit-learn style estimator; for names such as NAME-4 a function (number)."""

    def register(make: F) -> F:
        def build(order: Order) -> Agent:
            from consilience.agents.sklearn_agent import SklearnAgent

            number = order.model.removeprefix(name).removeprefix("-")
            try:
                made = make(int(number)) if number else make()
            except TypeError:
                form = f"{name}-4" if not number else name
                raise ConsilienceError(f"the model {order.model!r} is not known. Write it as {form}.") from None
            return SklearnAgent(
                made,
                order.x,
                order.y,
                order.name,
                task=order.task,
                classes=order.outputs,
                kind=order.model,
                seed=order.seed,
            )

        MODELS.add(name)(build)
        COSTS[name] = cost
        return make

    return register


def _network_agent(make: "Callable[..., nn.Module] | tuple[str, str]", order: Order) -> Agent:
    """An agent around a torch module; its first weights depend on the seed and its name alone."""
    import torch

    from consilience.agents.torch_agent import TorchAgent

    function = getattr(import_module(make[0]), make[1]) if isinstance(make, tuple) else make
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(order.seed, "initial weights", order.name).integers(2**63)))
        module = function(order.x.shape[1:], order.outputs)
    training = order.training
    return TorchAgent(
        module,
        order.x,
        order.y,
        order.name,
        task=order.task,
        kind=order.model,
        epochs=training.epochs,
        batch=training.batch,
        shared_batch=training.shared_batch,
        lr=training.lr,
        batched=training.batched,
        seed=order.seed,
        device=order.device,
    )


def model_named(model: str) -> Callable[[Order], Agent]:
    """The function that builds an agent with this model; NAME-4 is the model NAME with the number 4."""
    head, _, number = model.rpartition("-")
    numbered = number.isdecimal() and head in MODELS.names()
    build: Callable[[Order], Agent] = MODELS.find(head if numbered else model)
    return build


def cost_of(model: str) -> Cost:
    """What a model is expected to cost."""
    MODELS.names()
    return COSTS.get(model, COSTS.get(model.rpartition("-")[0], UNKNOWN_COST))
