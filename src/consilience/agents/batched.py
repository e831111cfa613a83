"""Small models of one architecture, trained as one computation on stacked weights.

A step of a small model is mostly the cost of calling torch. Here one call serves many agents. Each takes exactly the
steps and samples that it would take alone, and its numbers do not depend on who else is in the batch, to the bit:
every matrix product, row and sum belongs to one agent and has a size that follows from its own settings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from consilience.agents.adam import Adam, Moments, adam_step, step_sizes
from consilience.agents.input_cache import read_once
from consilience.agents.protocol import Agent, Losses
from consilience.agents.tensors import Inputs, for_network
from consilience.agents.torch_agent import TorchAgent
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count
from consilience.tasks.protocol import Array

LARGEST_MODEL = 100_000
"""Largest number of parameters for which batches are faster (docs/benchmarks.md)."""
LARGEST_DATA = 500_000
"""Largest number of values in an agent's private data: a batch copies them into one tensor every round."""
LARGEST_BATCH = 16
"""Largest number of agents in a batch; larger batches are not faster."""
ROOM = 4_000_000
"""Largest number of values in the inputs of one step of a batch, so that they stay in the processor's cache."""
LARGE_ROW = 1000
"""Values in a row from which on the rows of a step are copied one by one, without a table of all rows."""
_ALIGNED = 32
"""Tensors start at multiples of this, so that the same vector instructions compute every agent's numbers."""


def train_all(
    agents: Sequence[Agent],
    shared: Rows,
    labels: Mapping[str, Array],
    lam: float,
    on_trained: Callable[[str], None] = lambda name: None,
) -> dict[str, Losses]:
    """One round of local training of every agent, as its own `train` would do it; the losses by name.

    `labels` are the pseudo-labels by name; agents without any train alone. `on_trained` is called with the name of each
    agent that has trained.
    """
    losses: dict[str, Losses] = {}
    for unit in _units(agents):
        for group in ([a for a in unit if a[0].name in labels], [a for a in unit if a[0].name not in labels]):
            networks = [network for _, network in group if network is not None]
            if networks:
                losses |= _train(networks, shared, labels, lam)
            for agent, _ in group:
                name = agent.name
                if not networks:
                    losses[name] = agent.train(shared, labels.get(name), lam if name in labels else 0.0)
                on_trained(name)
    return {agent.name: losses[agent.name] for agent in agents}


def units(agents: Sequence[Agent]) -> list[list[str]]:
    """Names of the agents that train as one batch; most other agents are on their own.

    Processes that keep a batch together are faster. The numbers do not depend on it.
    """
    return [[agent.name for agent, _ in unit] for unit in _units(agents)]


def _units(agents: Sequence[Agent]) -> list[list[tuple[Agent, TorchAgent | None]]]:
    """The agents that train as one batch, each with the network that is stacked, if it is."""
    alike: dict[object, list[tuple[Agent, TorchAgent | None]]] = {}
    for number, agent in enumerate(agents):
        network = stackable(agent)
        alike.setdefault(number if network is None else architecture(network), []).append((agent, network))
    most = {kind: _most(kind) if isinstance(kind, tuple) else 1 for kind in alike}
    return [
        [same[index] for index in indices]
        for kind, same in alike.items()
        for indices in np.array_split(range(len(same)), -(-len(same) // most[kind]))
    ]


def _most(kind: tuple[Any, ...]) -> int:
    """Agents of an `architecture` in one batch."""
    _, batch, shared_batch, (_, inputs), *_ = kind
    return max(1, min(LARGEST_BATCH, ROOM // int((batch + shared_batch) * inputs)))


def stackable(agent: Agent) -> TorchAgent | None:
    """The network that trains when `agent` does, if it can be stacked with others of its architecture.

    The agent inside a wrapper counts, unless the wrapper trains in its own way. A private agent trains by itself, since
    a batch has no gradients of single rows.
    """
    trains = getattr(agent, "train", None)
    network = getattr(trains, "__self__", None)
    if not isinstance(network, TorchAgent) or not network.training.batched or network.name != agent.name:
        return None
    if not isinstance(network.optimizer, Adam) or architecture(network) is None or _changed(network.model):
        return None
    return network


_architectures: WeakKeyDictionary[TorchAgent, tuple[Any, ...] | None] = WeakKeyDictionary()


def architecture(network: TorchAgent) -> tuple[Any, ...] | None:
    """What the agents of one batch have in common; None for one that cannot be in a batch. Determined once."""
    if network not in _architectures:
        _architectures[network] = _architecture(network)
    return _architectures[network]


def _architecture(network: TorchAgent) -> tuple[Any, ...] | None:
    if network.device.type != "cpu" or network.mechanism is not None:
        return None
    if not isinstance(network.x, Tensor) or network.transform is not None or network.augment is not None:
        return None
    training = network.training
    if training.class_balanced or training.ema or training.solver != "steps":
        return None
    layers, weights = _layers(network.model), list(network.model.parameters())
    plain = len(weights) == 2 * len(layers) and all(w.dtype == torch.float32 for w in weights)
    small = sum(w.numel() for w in weights) <= LARGEST_MODEL and network.x.numel() <= LARGEST_DATA
    if not plain or not small or network.x.dtype != torch.float32:
        return None
    shapes = (tuple(layer.weight.shape) for layer in layers)
    return (network.task.name, training.batch, training.shared_batch, *shapes, network.read.columns)


def _layers(model: nn.Module) -> list[nn.Linear]:
    """The layers of a plain network (an optional Flatten, then Linear, ReLU, Linear, ...); empty for any other."""
    modules = list(model) if type(model) is nn.Sequential else [model]
    if modules and type(modules[0]) is nn.Flatten and (modules[0].start_dim, modules[0].end_dim) == (1, -1):
        modules = modules[1:]
    layers = [layer for layer in modules[::2] if type(layer) is nn.Linear and layer.bias is not None]
    between = [layer for layer in modules[1::2] if type(layer) is nn.ReLU]
    plain = len(layers) == len(between) + 1 and len(layers) + len(between) == len(modules)
    return layers if plain else []


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = tuple(f"_global{hooks}" for hooks in _HOOKS)


def _changed(model: nn.Module) -> bool:
    """Whether training does more, or other, than plain layers do: hooks, frozen weights, a patched forward.

    Unlike the structure of a model this may change between rounds.
    """
    if any(getattr(nn.modules.module, hooks, None) for hooks in _GLOBAL_HOOKS):
        return True
    for module in model.modules():
        patched = "forward" in vars(module) or type(module).forward.__module__ != type(module).__module__
        if patched or any(getattr(module, hooks, None) for hooks in _HOOKS):
            return True
    weights = model.parameters()
    return any(not w.requires_grad or w._backward_hooks or w._post_accumulate_grad_hooks for w in weights)


@dataclass(frozen=True)
class _Stack:
    """Weights and Adam's moments of several agents, one row of numbers each."""

    agents: list[TorchAgent]
    shapes: list[tuple[int, ...]]
    starts: list[int]
    weights: Tensor
    first: Tensor
    second: Tensor
    gradient: Tensor
    size: Tensor
    """Adam's step sizes (steps, agents, 1)."""
    root: Tensor

    def views(self, rows: Tensor) -> list[Tensor]:
        """The tensors of the model (agents, ...) within `rows` (agents, numbers)."""
        return [
            rows[:, start : start + prod(shape)].view(-1, *shape)
            for start, shape in zip(self.starts, self.shapes, strict=True)
        ]


def _stacked(agents: list[TorchAgent]) -> _Stack:
    shapes = [tuple(p.shape) for p in agents[0].model.parameters()]
    starts, total = [], 0
    for shape in shapes:
        starts.append(total)
        total += -(-prod(shape) // _ALIGNED) * _ALIGNED
    rows = torch.zeros((4, len(agents), total))
    steps = agents[0].steps
    size, root = np.ones((steps, len(agents), 1), np.float32), np.ones((steps, len(agents), 1), np.float32)
    weights, first, second, gradient = rows
    sizes, roots = torch.from_numpy(size), torch.from_numpy(root)
    stack = _Stack(agents, shapes, starts, weights, first, second, gradient, sizes, roots)
    for row_index, agent in enumerate(agents):
        optimizer = _adam(agent)
        done = 0
        for number, parameter in enumerate(optimizer.parameters):
            values = [parameter.detach()]
            if number in optimizer.moments:
                moments = optimizer.moments[number]
                values, done = [*values, moments.first, moments.second], moments.steps
            for row, value in zip(rows, values, strict=False):
                row[row_index, starts[number] : starts[number] + value.numel()] = value.reshape(-1)
        for step in range(agent.steps):
            size[step, row_index], root[step, row_index] = step_sizes(done + step + 1, agent.lr)
    return stack


def _unstack(stack: _Stack) -> None:
    """Gives every agent its weights and moments back."""
    views = [stack.views(rows) for rows in (stack.weights, stack.first, stack.second)]
    for row, agent in enumerate(stack.agents):
        optimizer = _adam(agent)
        for number, parameter in enumerate(optimizer.parameters):
            weight, first, second = (tensors[number][row] for tensors in views)
            parameter.data.copy_(weight)
            parameter.grad = None
            done = optimizer.moments[number].steps if number in optimizer.moments else 0
            optimizer.moments[number] = Moments(done + agent.steps, first.clone(), second.clone())


def _adam(agent: TorchAgent) -> Adam:
    assert isinstance(agent.optimizer, Adam)
    return agent.optimizer


@dataclass(frozen=True)
class _Plan:
    """Which samples every agent takes in every step, and how much they weigh. Rows that only fill up weigh nothing."""

    private: list[Tensor]
    """Each agent's samples."""
    shared: Tensor | None
    table: Tensor | None
    """All samples of all agents, and the shared ones; None for large rows."""
    targets: Tensor
    """What each of them should give; the shared ones once for every agent."""
    input_rows: Tensor
    """(steps, agents, samples of a step): places in such a table."""
    target_rows: Tensor
    weights: Tensor
    """(steps, agents, samples of a step): 1 / batch, or lambda / shared batch."""
    own: int
    """Samples of a step that are private; the others are shared."""
    size: int
    """Samples of a step that are shared."""

    def inputs(self, step: int, active: int, buffer: Tensor | None) -> Tensor:
        """What the first `active` agents take in a step (agents, samples of a step, numbers); large rows in `room`."""
        rows = self.input_rows[step, :active]
        if self.table is not None or buffer is None:
            assert self.table is not None
            return _rows(self.table, rows)
        start, samples = 0, sum(len(own) for own in self.private)
        for row, own in enumerate(self.private[:active]):
            torch.index_select(own, 0, rows[row, : self.own] - start, out=buffer[row, : self.own])
            if self.shared is not None:
                shared_index = (rows[row, self.own : self.own + self.size] - samples).clamp_min(0)  # fillers are 0
                torch.index_select(self.shared, 0, shared_index, out=buffer[row, self.own : self.own + self.size])
            start += len(own)
        return buffer[:active]


def _planned(agents: list[TorchAgent], shared: Rows, labels: Mapping[str, Array], lam: float) -> _Plan:
    outputs, own = agents[0].outputs, agents[0].training.batch
    drawn = count(shared) if agents[0].name in labels else 0
    length = drawn if lam > 0 else 0
    size = -(-length // -(-length // agents[0].training.shared_batch)) if length else 0
    shape = (agents[0].steps, len(agents), -(-(own + size) // _ALIGNED) * _ALIGNED)
    input_rows, target_rows = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    weights = np.zeros(shape, np.float32)
    private, targets, start = [], [], 0
    samples = sum(agent.samples for agent in agents)
    for row, agent in enumerate(agents):
        private.append(_as_tensor(agent.x).flatten(1))
        targets.append(torch.from_numpy(agent.task.targets(agent.y.numpy(), outputs)))
        for step, (mine, pick) in enumerate(agent.next_round(drawn)):
            input_rows[step, row] = target_rows[step, row] = start
            input_rows[step, row, : len(mine)] = target_rows[step, row, : len(mine)] = start + mine
            weights[step, row, : len(mine)] = 1 / len(mine)
            if pick is not None and length:
                seen = slice(own, own + len(pick))
                input_rows[step, row, seen] = samples + pick
                target_rows[step, row, seen] = samples + row * length + pick
                weights[step, row, seen] = lam / len(pick)
        start += agent.samples
    shared_rows = flat_rows(agents[0].read.ordered(shared)) if length else None
    if length:
        targets += [torch.from_numpy(np.asarray(labels[agent.name], np.float32)) for agent in agents]
    large = private[0].shape[1] >= LARGE_ROW
    return _Plan(
        private,
        shared_rows,
        None if large else torch.cat(private if shared_rows is None else [*private, shared_rows]),
        torch.cat(targets),
        torch.from_numpy(input_rows),
        torch.from_numpy(target_rows),
        torch.from_numpy(weights),
        own,
        size,
    )


@torch.no_grad()
def _train(agents: list[TorchAgent], shared: Rows, labels: Mapping[str, Array], lam: float) -> dict[str, Losses]:
    """`TorchAgent.train` for all of them at once: all have labels, or none has.

    Those with the most steps come first, so that the agents that still train in a step are the first ones.
    """
    agents = sorted(agents, key=lambda agent: (-agent.steps, agent.name))
    lam = lam if agents[0].name in labels else 0.0
    stack, plan = _stacked(agents), _planned(agents, shared, labels, lam)
    total = torch.zeros(plan.weights.shape[1:])
    buffer = torch.zeros((*total.shape, plan.private[0].shape[1])) if plan.table is None else None
    for step in range(agents[0].steps):
        active = sum(agent.steps > step for agent in agents)
        weights, gradient = stack.views(stack.weights[:active]), stack.views(stack.gradient[:active])
        x = plan.inputs(step, active, buffer)
        target = _rows(plan.targets, plan.target_rows[step, :active])
        weight = plan.weights[step, :active]
        layers = [x]
        for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
            out = torch.baddbmm(bias.unsqueeze(1), layers[-1], matrix.mT)
            layers.append(out.relu_() if matrix is not weights[-2] else out)
        loss, back = agents[0].task.stacked_loss(layers.pop(), target)
        total[:active] += loss.mul_(weight)
        back.mul_(weight.unsqueeze(2))
        ones = torch.ones(active, 1, back.shape[1])
        for number in range(len(layers) - 1, -1, -1):
            torch.bmm(back.mT, layers[number], out=gradient[2 * number])
            torch.bmm(ones, back, out=gradient[2 * number + 1].unsqueeze(1))
            if number:
                back = torch.bmm(back, weights[2 * number]).mul_(layers[number].sign())
        adam_step(
            stack.weights[:active],
            stack.gradient[:active],
            stack.first[:active],
            stack.second[:active],
            stack.size[step, :active],
            stack.root[step, :active],
        )
    _unstack(stack)
    trained = (plan.weights > 0).sum(dim=(0, 2)).tolist()
    results = zip(agents, total, trained, strict=True)
    return {agent.name: _losses(agent, sums, plan.own, lam, samples) for agent, sums, samples in results}


def _losses(agent: TorchAgent, sums: Tensor, own: int, lam: float, trained: int) -> Losses:
    disagreement = sums[own:].sum().item() / lam if lam > 0 else float("nan")
    return agent.end_round(sums[:own].sum().item(), disagreement, trained)


def flat_rows(rows: Rows) -> Tensor:
    """One row of numbers for each sample, as plain networks take them; made once for rows that are cached."""

    def read() -> Tensor:
        return _as_tensor(for_network("the shared data", rows, floats=True)).flatten(1).contiguous()

    made: Tensor = read_once(rows, "rows of numbers", read)
    return made


def _as_tensor(inputs: Inputs) -> Tensor:
    """The single tensor that networks of a batch take: none of them has a transform, or several inputs."""
    if not isinstance(inputs, Tensor):
        raise ConsilienceError("the private data of some agents are arrays, the shared data are a dict of such.")
    return inputs


def _rows(table: Tensor, places: Tensor) -> Tensor:
    """Rows of `table` (rows, numbers) as (*places, numbers)."""
    return table.index_select(0, places.flatten()).view(*places.shape, -1)
