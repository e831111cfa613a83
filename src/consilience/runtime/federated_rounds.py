"""The server round that FedAvg, FedProx, SCAFFOLD and FedDyn share. Their equations are in `core/federated.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.agents.protocol import Agent, Array, Losses
from consilience.core import federated as rules
from consilience.errors import ConsilienceError
from consilience.runtime.exchange import checked_predictions
from consilience.runtime.rounds import OnTrained, Round, Start
from consilience.runtime.workers import Group

if TYPE_CHECKING:
    from torch import Tensor, nn

    from consilience.agents.torch_agent import Correction, TorchAgent

FEDERATED = ("fedavg", "fedprox", "scaffold", "feddyn")

Weights = dict[str, Array]

_ADVICE = (
    "Averaging models needs the same torch architecture everywhere; consensus works for agents with different models."
)


@dataclass(frozen=True)
class Federated:
    """The settings of a method that averages models. They need the same architecture everywhere, and a server."""

    name: str = "fedavg"
    """fedavg | fedprox | scaffold | feddyn."""
    rounds: int = 20
    mu: float = 0.01
    """FedProx: how strongly a model is held near the server's."""
    alpha: float = 0.1
    """FedDyn: the same, and the step in which each agent's lambda_i follows its gradient."""
    variates: str = "gradients"
    """SCAFFOLD: c_i+ from the gradients, their mean over the K steps | from the steps taken, (x - y) / (K lr), as
    printed: the same under plain SGD; under Adam those are of order one per weight and drown the gradients."""
    keep_optimizer: bool = False
    """Whether the local optimizer's state lives on across rounds; by default it starts afresh in each."""

    def __post_init__(self) -> None:
        problem = ""
        if self.name not in FEDERATED:
            problem = f"unknown method {self.name!r}. Known: {', '.join(FEDERATED)}."
        elif self.rounds < 1:
            problem = f"rounds is {self.rounds}; use at least 1."
        elif not (isfinite(self.mu) and self.mu >= 0):
            problem = f"mu is {self.mu:g}, but the weight of the proximal term cannot be negative. Use 0.01."
        elif not (isfinite(self.alpha) and self.alpha > 0):
            problem = f"alpha is {self.alpha:g}, but FedDyn divides by it. Use a number above 0, such as 0.01."
        elif self.variates not in ("steps", "gradients"):
            problem = f"unknown variates {self.variates!r}. Known: steps, gradients."
        if problem:
            raise ConsilienceError(problem)


@dataclass(frozen=True)
class _Memory:
    """What SCAFFOLD and FedDyn keep: c and the c_i, or h and the lambda_i. Empty for the others."""

    common: Weights
    own: dict[str, Weights]

    def arrays(self, method: Federated) -> dict[str, Array]:
        arrays = {f"{method.name}/{key}": value for key, value in self.common.items()}
        for name, weights in self.own.items():
            arrays |= {f"{method.name}/{name}/{key}": value for key, value in weights.items()}
        return arrays


def federated(
    agents: Sequence[Agent],
    shared: Array,
    method: Federated,
    after_round: Callable[[Round], None],
    start: Start | None = None,
    group: Group | None = None,
    on_trained: OnTrained = lambda name: None,
) -> None:
    """Rounds in which a server sends its model, everyone trains it on private data, and the server averages.

    All agents start from the first one's weights, and hold the server's model after every round. The order of
    `agents`, or of the roster of a `group` of workers, is the order of summation. Every worker plays the server, with
    the same numbers. The shared data are for measuring only.
    """
    start, group = start or Start(), group or Group()
    names = group.names(agents)
    members = _torch_agents(agents)
    model = group.from_first(members[0].weights())
    _same_architecture(members, names[0], model)
    samples = group.together({agent.name: np.array(agent.samples) for agent in members})
    p = rules.shares([int(samples[name]) for name in names])
    memory = _memory(method, members[0], model, names, start)
    for agent in members:
        agent.set_weights(model)
    for t in range(start.rounds_done + 1, method.rounds + 1):
        losses: dict[str, Losses] = {}
        trained: dict[str, Weights] = {}
        own: dict[str, Weights] = {}
        sent: dict[str, int] = {}
        for agent in members:
            if not method.keep_optimizer:
                agent.reset_optimizer()
            seen: dict[str, Tensor] = {}
            losses[agent.name] = agent.train(shared, None, 0.0, _correction(method, agent, model, memory, seen))
            trained[agent.name] = agent.weights()
            own[agent.name] = _own_update(method, agent, model, trained[agent.name], memory, seen)
            sent[agent.name] = _bytes(method, model, trained[agent.name], memory)
            on_trained(agent.name)
        trained, own = _of_all(names, trained, group), _of_all(names, own, group)
        model, memory = _server_update(method, p, model, list(trained.values()), memory, own)
        for agent in members:
            agent.set_weights(model)
        spoken = {
            a.name: checked_predictions(a.name, a.predict(shared), len(shared), a.outputs, a.task) for a in members
        }
        after_round(Round(t, spoken, names, losses, None, sent, None, memory.arrays(method)))


def _of_all(names: Sequence[str], mine: dict[str, Weights], group: Group) -> dict[str, Weights]:
    """The weights of all agents, in order, from those of this worker's agents."""
    found = group.together({f"{name}/{key}": value for name, weights in mine.items() for key, value in weights.items()})
    parts: dict[str, Weights] = {name: {} for name in names}
    for path, value in found.items():
        name, _, key = path.partition("/")
        parts[name][key] = value
    return parts


def _torch_agents(agents: Sequence[Agent]) -> "list[TorchAgent]":
    from consilience.agents.torch_agent import TorchAgent

    members = [agent for agent in agents if isinstance(agent, TorchAgent)]
    for agent in agents:
        if agent not in members:
            raise ConsilienceError(
                f"agent {agent.name!r} ({agent.kind}) has no weights that can be averaged. {_ADVICE}"
            )
    return members


def _same_architecture(members: "list[TorchAgent]", first: str, model: Weights) -> None:
    """Refuses agents whose weights do not have the shapes of `model`, which are those of the `first` agent."""
    for agent in members:
        weights = agent.weights()
        for key in [*model, *weights]:
            ours, theirs = (getattr(part.get(key), "shape", "missing") for part in (model, weights))
            if ours != theirs:
                raise ConsilienceError(
                    f"agent {agent.name!r} ({agent.kind}) differs from agent {first!r} in {key}: "
                    f"{theirs} against {ours}. {_ADVICE}"
                )


def _memory(method: Federated, member: "TorchAgent", model: Weights, agents: Sequence[str], start: Start) -> _Memory:
    """Zeros before the first round, afterwards what `start` holds."""
    if method.name not in ("scaffold", "feddyn"):
        return _Memory({}, {agent: {} for agent in agents})
    names = [name for name, _ in member.model.named_parameters() if name in model]
    zeros = _Memory(
        {name: np.zeros_like(model[name]) for name in names},
        {agent: {name: np.zeros_like(model[name]) for name in names} for agent in agents},
    )
    if not start.rounds_done:
        return zeros
    if start.server.keys() != zeros.arrays(method).keys():
        raise ConsilienceError(
            f"the checkpoint of round {start.rounds_done} does not hold what {method.name} keeps for these agents. "
            "Was it made by another method? Resume with the same one, or start again in another folder."
        )
    common = {name: start.server[f"{method.name}/{name}"] for name in names}
    own = {agent: {name: start.server[f"{method.name}/{agent}/{name}"] for name in names} for agent in agents}
    return _Memory(common, own)


def _correction(
    method: Federated, agent: "TorchAgent", model: Weights, memory: _Memory, seen: "dict[str, Tensor]"
) -> "Correction | None":
    """The method's change to the gradient, before every optimizer step; under Adam, before it is normalised.

    The sum of the gradients that SCAFFOLD sees, before their change, is left in `seen`.
    """
    if method.name == "fedavg":
        return None
    x = _beside(agent, model)
    c, c_i = _beside(agent, memory.common), _beside(agent, memory.own[agent.name])

    def correct(parameters: "dict[str, nn.Parameter]") -> None:
        for name, parameter in parameters.items():
            g, y = parameter.grad, parameter.detach()
            if g is None:
                continue
            if method.name == "fedprox":
                parameter.grad = rules.fedprox_gradient(g, y, x[name], method.mu)
            elif method.name == "scaffold":
                seen[name] = seen[name] + g if name in seen else g
                parameter.grad = rules.scaffold_gradient(g, c_i[name], c[name])
            else:
                parameter.grad = rules.feddyn_gradient(g, y, x[name], c_i[name], method.alpha)

    return correct


def _beside(agent: "TorchAgent", weights: Weights) -> "dict[str, Tensor]":
    """`weights` as tensors of the same type and on the same device as the agent's parameters."""
    import torch

    parameters = agent.model.named_parameters()
    return {name: torch.from_numpy(weights[name]).to(p) for name, p in parameters if name in weights}


def _own_update(
    method: Federated,
    agent: "TorchAgent",
    model: Weights,
    trained: Weights,
    memory: _Memory,
    seen: "dict[str, Tensor]",
) -> Weights:
    """What an agent keeps of a round: SCAFFOLD's c_i, FedDyn's lambda_i."""
    own = memory.own[agent.name]
    if method.name == "scaffold" and method.variates == "gradients":
        return own | {name: (total / agent.steps).float().cpu().numpy() for name, total in seen.items()}
    if method.name == "scaffold":
        steps, lr = agent.steps, agent.lr
        return _each(
            lambda c_i, c, x, y: rules.scaffold_variate(c_i, c, x, y, steps, lr), own, memory.common, model, trained
        )
    if method.name == "feddyn":
        return _each(lambda lam_i, x, y: rules.feddyn_dual(lam_i, y, x, method.alpha), own, model, trained)
    return own


def _server_update(
    method: Federated, p: list[float], model: Weights, trained: list[Weights], memory: _Memory, own: dict[str, Weights]
) -> tuple[Weights, _Memory]:
    """The server's next model, buffers included, and what is kept. FedDyn's h acts on parameters, not on buffers."""
    averaged = _each(lambda *y: rules.average(y, p), *trained)
    common = memory.common
    if method.name == "scaffold":
        n = len(own)
        common = _each(
            lambda c, *c_i: rules.scaffold_server_variate(c, c_i[:n], c_i[n:], p),
            *(common, *memory.own.values(), *own.values()),
        )
    elif method.name == "feddyn":
        common = _each(lambda h, x, *y: rules.feddyn_memory(h, y, x, p, method.alpha), common, model, *trained)
        averaged |= _each(lambda h, *y: rules.feddyn_server(y, h, p, method.alpha), common, *trained)
    return averaged, _Memory(common, own)


def _each(rule: Callable[..., Any], *parts: Weights) -> Weights:
    """`rule` on every tensor that the first part names, in double precision, rounded to the precision of that part."""
    first = parts[0]
    return {
        key: np.asarray(rule(*(w[key].astype(np.float64) for w in parts))).astype(first[key].dtype) for key in first
    }


def _bytes(method: Federated, model: Weights, trained: Weights, memory: _Memory) -> int:
    """Bytes to and from one agent in one round: the model down and up, and for SCAFFOLD c down and a change up."""
    extra = 2 * _size(memory.common) if method.name == "scaffold" else 0
    return _size(model) + _size(trained) + extra


def _size(weights: Weights) -> int:
    return sum(value.nbytes for value in weights.values())
