"""Small models of one architecture, trained as one computation on stacked weights.

A step of a small model is mostly the cost of calling torch. Here one call serves many agents. Each takes exactly the
steps and samples that it would take alone, and its numbers do not depend on who else is in the batch, to the bit:
every matrix product, row and sum belongs to one agent and has a size that follows from its own settings.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from consilience.agents.batch_plan import Lesson, Plan
from consilience.agents.optimizers import Adam
from consilience.agents.protocol import (
    Agent,
    Correction,
    GradientCorrection,
    Losses,
)
from consilience.agents.stacked_weights import StackedCorrection, StackedWeights
from consilience.agents.torch_agent import TorchAgent

LARGEST_MODEL = 100_000
"""Largest number of parameters for which batches are faster (docs/results/speed.md)."""
LARGEST_DATA = 500_000
"""Largest number of values in an agent's private data: a batch copies them into one tensor every round."""
LARGEST_BATCH = 32
"""Largest number of agents in a batch; larger batches are not faster."""
ROOM = 4_000_000
"""Largest number of values in the inputs of one step of a batch, so that they stay in the processor's cache."""
Unit = list[tuple[Agent, TorchAgent | None]]
"""Agents that train as one batch, each with the network that is stacked, if it is."""


def train_together(
    agents: Sequence[Agent],
    how: str,
    lesson: Lesson,
    key: Callable[[Agent, TorchAgent], Hashable],
    alone: Callable[[Agent], Losses],
    on_trained: Callable[[str], None],
) -> dict[str, Losses]:
    """Trains agents that have a method `how`, each as it would do it by itself; the losses by name.

    Args:
        agents: Those of one process.
        how: The method of an agent that trains it, such as train_alone.
        lesson: What they learn.
        key: Equal for agents that may be stacked with each other; -1 for one that is not stacked.
        alone: Trains one agent by itself.
        on_trained: Is called with the name of each agent that has trained.
    """
    losses: dict[str, Losses] = {}
    for unit in _units(agents, how):
        groups: dict[Hashable, Unit] = {}
        for agent, network in unit:
            groups.setdefault(-1 if network is None else key(agent, network), []).append((agent, network))
        for kind, group in groups.items():
            networks = [network for _, network in group if network is not None and kind != -1]
            if networks:
                losses |= _train(networks, lesson)
            for agent, _ in group:
                if not networks:
                    losses[agent.name] = alone(agent)
                on_trained(agent.name)
    return {agent.name: losses[agent.name] for agent in agents}


def same_correction(correct: Correction | None) -> Hashable:
    """Equal for agents with the same correction but for their own state; -1 for one that cannot be stacked."""
    if correct is None:
        return 0
    if not isinstance(correct, GradientCorrection) or not correct.elementwise:
        return -1
    return id(correct.x), id(correct.common)


def units(agents: Sequence[Agent]) -> list[list[str]]:
    """Names of the agents that train as one batch; most other agents are on their own.

    Processes that keep a batch together are faster. The numbers do not depend on it.
    """
    return [[agent.name for agent, _ in unit] for unit in _units(agents, "train")]


def _units(agents: Sequence[Agent], how: str) -> list[Unit]:
    alike: dict[object, Unit] = {}
    for number, agent in enumerate(agents):
        network = stackable(agent, how)
        alike.setdefault(number if network is None else architecture(network), []).append((agent, network))
    split: list[Unit] = []
    for kind, same in alike.items():
        most = _most(kind) if isinstance(kind, tuple) else 1
        if len(same) > most:  # those with as many samples together
            same.sort(key=lambda pair: pair[1].samples if pair[1] is not None else 0)
        parts = np.array_split(range(len(same)), -(-len(same) // most))
        split += [[same[index] for index in indices] for indices in parts]
    return split


def _most(kind: tuple[Any, ...]) -> int:
    _, batch, shared_batch, (_, inputs), *_ = kind
    return max(1, min(LARGEST_BATCH, ROOM // int((batch + shared_batch) * inputs)))


def stackable(agent: Agent, how: str = "train") -> TorchAgent | None:
    """The network that trains when `agent` does, by its method `how`, if it can be stacked with others like it.

    The agent inside a wrapper counts, unless the wrapper trains in its own way. A private agent trains by itself, since
    a batch has no gradients of single rows.
    """
    trains = getattr(agent, how, None)
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
    if training.class_balanced or network.solves_exactly or training.solver == "both":
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
        if patched or any(getattr(module, hooks) for hooks in _HOOKS):
            return True
        for weight in module._parameters.values():
            if weight is not None and (
                not weight.requires_grad or weight._backward_hooks or weight._post_accumulate_grad_hooks
            ):
                return True
    return False


@torch.no_grad()
def _train(agents: list[TorchAgent], lesson: Lesson) -> dict[str, Losses]:
    """What each of them would do alone in this lesson.

    Those with the most steps come first, so that the agents that still train in a step are the first ones.
    """
    begun = {agent.name: lesson.schedule(agent) for agent in agents}
    agents = sorted(agents, key=lambda agent: (-len(begun[agent.name]), agent.name))
    schedules = [begun[agent.name] for agent in agents]
    steps = [len(schedule) for schedule in schedules]
    stack, plan = StackedWeights.of(agents, steps), Plan.of(agents, schedules, lesson)
    corrections = [lesson.corrections[agent.name] for agent in agents if agent.name in lesson.corrections]
    corrected = StackedCorrection(stack, corrections) if corrections else None
    total, buffer = torch.zeros(plan.weights.shape[1:]), plan.buffer()
    for step in range(steps[0]):
        active = sum(own > step for own in steps)
        weights, gradient = stack.views(stack.weights[:active]), stack.views(stack.gradient[:active])
        weight = plan.weights[step, :active]
        layers = [plan.inputs(step, active, buffer)]
        for matrix, bias in zip(weights[::2], weights[1::2], strict=True):
            out = torch.baddbmm(bias.unsqueeze(1), layers[-1], matrix.mT)
            layers.append(out.relu_() if matrix is not weights[-2] else out)
        loss, back = agents[0].task.stacked_loss(layers.pop(), plan.targets_of(step, active))
        total[:active] += loss.mul_(weight)
        back.mul_(weight.unsqueeze(2))
        ones = torch.ones(active, 1, back.shape[1])
        for number in range(len(layers) - 1, -1, -1):
            torch.bmm(back.mT, layers[number], out=gradient[2 * number])
            torch.bmm(ones, back, out=gradient[2 * number + 1].unsqueeze(1))
            if number:
                back = torch.bmm(back, weights[2 * number]).mul_(layers[number].sign_())
        stack.adam_step(step, active, stack.gradient[:active] if corrected is None else corrected(active))
    stack.give_back()
    if corrected is not None:
        corrected.give_sums()
    trained = (plan.weights > 0).sum(dim=(0, 2)).tolist()
    results = zip(agents, total, steps, trained, strict=True)
    return {agent.name: lesson.losses(agent, sums, own, samples) for agent, sums, own, samples in results}
