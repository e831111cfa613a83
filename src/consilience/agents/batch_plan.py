"""What a batch of agents learns together, and which samples each of them takes in every step."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from consilience.agents.input_cache import read_once
from consilience.agents.protocol import GradientCorrection, Losses
from consilience.agents.stacked_weights import ALIGNED
from consilience.agents.tensors import Inputs, for_network
from consilience.agents.torch_agent import TorchAgent
from consilience.agents.training import number_of_batches
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count
from consilience.tasks.protocol import Array

MANY = 64
"""Agents in a run from which on steps on private data are narrow, and first layers predict as one product: faster
(docs/results/speed.md), while the numbers of smaller runs stay what they were."""
NARROW = 8
"""Rows of a narrow step are a multiple of this."""
LARGE_ROW = 1000
"""Values in a row from which on the rows of a step are copied one by one, without a table of all rows."""
Schedule = list[tuple[Array | None, Array | None]]
"""An agent's private samples and labelled samples in each step."""


@dataclass(frozen=True)
class Lesson:
    """What agents of one architecture learn together."""

    shared: Rows | None = None
    """The rows that have pseudo-labels; None if they are each agent's private rows."""
    labels: Mapping[str, Array] = field(default_factory=dict)
    """Pseudo-labels by name; agents without any train alone. Either all agents of a batch have some, or none has."""
    lam: Mapping[str, float] = field(default_factory=dict)
    """Their weights by name."""
    passes: int = 0
    """Passes over the shared data alone; 0 for a round on private data, with the pseudo-labels beside them."""
    corrections: Mapping[str, GradientCorrection] = field(default_factory=dict)
    """Changes of the gradients by name."""
    narrow: bool = False
    """Whether a step on private data has hardly more rows than samples; agents with as many rows train together."""

    def drawn(self, agent: TorchAgent) -> int:
        """The number of rows of which an agent draws labelled samples."""
        if agent.name not in self.labels:
            return 0
        return agent.samples if self.shared is None else count(self.shared)

    def weight(self, agent: TorchAgent) -> float:
        """lambda of an agent; 0 without pseudo-labels."""
        return self.lam[agent.name] if agent.name in self.labels else 0.0

    def schedule(self, agent: TorchAgent) -> Schedule:
        """Begins a round of an agent, or its passes over the shared data."""
        if self.passes:
            return [(None, pick) for pick in agent.shared_batches(self.drawn(agent), self.passes)]
        return list(agent.next_round(self.drawn(agent)))

    def private_rows(self, agent: TorchAgent) -> int:
        """Rows for private samples in a step."""
        if self.narrow:
            return _up(-(-agent.samples // number_of_batches(agent.samples, agent.training.batch)), NARROW)
        return 0 if self.passes else agent.training.batch

    def labelled_rows(self, agent: TorchAgent) -> int:
        """Labelled samples in the largest step."""
        length = self.drawn(agent) if self.weight(agent) > 0 else 0
        return -(-length // -(-length // agent.training.shared_batch)) if length else 0

    def width(self, agent: TorchAgent) -> int:
        """Rows of a step, with fillers. It follows from an agent's own settings, and its numbers depend on it."""
        rows = self.private_rows(agent) + self.labelled_rows(agent)
        return rows if self.narrow else _up(rows, ALIGNED)

    def losses(self, agent: TorchAgent, sums: Tensor, steps: int, trained: int) -> Losses:
        """The losses of an agent from the sums over its steps, by row."""
        own, lam = self.private_rows(agent), self.weight(agent)
        disagreement = sums[own:].sum().item() / lam if lam > 0 else float("nan")
        if self.passes:
            return Losses(float("nan"), disagreement / steps, trained)
        return agent.end_round(sums[:own].sum().item(), disagreement, trained)


@dataclass(frozen=True)
class Plan:
    """Which samples every agent takes in every step, and how much they weigh. Rows that only fill up weigh nothing."""

    private: list[Tensor]
    """Each agent's samples."""
    shared: Tensor | None
    table: Tensor | None
    """All samples of all agents, and the shared ones; None for large rows."""
    targets: Tensor
    """What each of them should give; the labelled ones once for every agent."""
    input_rows: Tensor
    """(steps, agents, samples of a step): places in such a table."""
    target_rows: Tensor
    weights: Tensor
    """(steps, agents, samples of a step): 1 / batch, or lambda / shared batch."""
    own: int
    """Samples of a step that are private; the others are labelled."""
    size: int
    """Samples of a step that are labelled."""

    @classmethod
    def of(cls, agents: list[TorchAgent], schedules: list[Schedule], lesson: Lesson) -> "Plan":
        """The plan of agents in the order of their schedules, the longest first."""
        own, size = lesson.private_rows(agents[0]), max(lesson.labelled_rows(agent) for agent in agents)
        shape = (len(schedules[0]), len(agents), max(lesson.width(agent) for agent in agents))
        weights = np.zeros(shape, np.float32)
        kept = 0 if lesson.passes and lesson.shared is not None else 1
        private = [_as_tensor(agent.x).flatten(1)[: kept * agent.samples] for agent in agents]
        targets = [torch.from_numpy(a.task.targets(a.y.numpy(), a.outputs)) for a in agents if kept]
        lam = np.array([lesson.weight(agent) for agent in agents])
        *starts, samples = np.cumsum([0, *map(len, private)])
        first = np.array(starts if lesson.shared is None else [samples] * len(agents))
        labelled = samples + np.cumsum([0, *(lesson.drawn(agent) for agent in agents[:-1])])
        input_rows = np.tile(np.array(starts, np.int32)[:, None], (shape[0], 1, shape[2]))
        target_rows = input_rows.copy()
        cells, pick, length = _cells([[mine for mine, _ in schedule] for schedule in schedules], 0)
        input_rows[cells] = target_rows[cells] = np.array(starts)[cells[1]] + pick
        weights[cells] = 1 / length
        with_labels = [schedule if weight > 0 else [] for schedule, weight in zip(schedules, lam, strict=True)]
        cells, pick, length = _cells([[pick for _, pick in schedule] for schedule in with_labels], own)
        input_rows[cells] = first[cells[1]] + pick
        target_rows[cells] = labelled[cells[1]] + pick
        weights[cells] = lam[cells[1]] / length
        shared_rows = None
        if size:
            targets += [torch.from_numpy(np.asarray(lesson.labels[agent.name], np.float32)) for agent in agents]
            if lesson.shared is not None:
                shared_rows = flat_rows(agents[0].read.ordered(lesson.shared))
        large = private[0].shape[1] >= LARGE_ROW
        return cls(
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

    def buffer(self) -> Tensor | None:
        """Room for the inputs of a step, where rows are large."""
        return torch.zeros((*self.weights.shape[1:], self.private[0].shape[1])) if self.table is None else None

    def inputs(self, step: int, active: int, buffer: Tensor | None) -> Tensor:
        """What the first `active` agents take in a step (agents, samples of a step, numbers); in `buffer`, if given."""
        rows = self.input_rows[step, :active]
        if self.table is not None or buffer is None:
            assert self.table is not None
            return rows_of(self.table, rows)
        start, samples = 0, sum(len(own) for own in self.private)
        for row, own in enumerate(self.private[:active]):
            torch.index_select(own, 0, rows[row, : self.own] - start, out=buffer[row, : self.own])
            if self.size:
                source, first = (own, start) if self.shared is None else (self.shared, samples)
                places = (rows[row, self.own : self.own + self.size] - first).clamp_min(0)  # fillers are 0
                torch.index_select(source, 0, places, out=buffer[row, self.own : self.own + self.size])
            start += len(own)
        return buffer[:active]

    def targets_of(self, step: int, active: int) -> Tensor:
        """What these inputs should give."""
        return rows_of(self.targets, self.target_rows[step, :active])


def _up(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step


def _cells(picks: list[list[Array | None]], column: int) -> tuple[tuple[Array, Array, Array], Array, Array]:
    """Where what each agent picks in each step goes: cells (step, agent, sample of a step), from `column` on.

    Then the row that is picked for each of them, and how many are picked in its step.
    """
    chosen = [
        (step, agent, rows) for agent, own in enumerate(picks) for step, rows in enumerate(own) if rows is not None
    ]
    length = np.array([len(rows) for _, _, rows in chosen], int)
    step, agent, start = (
        np.repeat(np.array(numbers, int), length)
        for numbers in ([s for s, _, _ in chosen], [a for _, a, _ in chosen], np.cumsum(length) - length)
    )
    rows = np.concatenate([np.zeros(0, int), *(rows for _, _, rows in chosen)])
    return (step, agent, column + np.arange(len(rows)) - start), rows, np.repeat(length, length)


def rows_of(table: Tensor, places: Tensor) -> Tensor:
    """Rows of `table` (rows, numbers) as (*places, numbers)."""
    return table.index_select(0, places.flatten()).view(*places.shape, -1)


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
