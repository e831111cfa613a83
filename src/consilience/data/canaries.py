"""Canaries: rows that are put into private data by a fair coin, so that an audit can ask whether they were there."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.core.streams import stream
from consilience.data.datasets import Array
from consilience.data.scenario import Scenario
from consilience.tasks import task_named
from consilience.tasks.protocol import require_classes


@dataclass(frozen=True)
class Canaries:
    """The canaries of one agent, those that are in its private data and those that are not."""

    x: Array
    y: Array
    inside: NDArray[np.bool_]


def canaries(scenario: Scenario, count: int, seed: int) -> dict[str, Canaries]:
    """Canaries for each agent: inputs at the extremes of each feature, random labels; half of them are in."""
    task = task_named(scenario.task)
    require_classes(task, f"canaries have a random class, and {scenario.task} has none. Set canaries=0.")
    if not isinstance(scenario.shared, np.ndarray):
        raise ConsilienceError("canaries need rows of numbers; these are tables or texts. Set canaries=0.")
    low, high = scenario.shared.min(axis=0), scenario.shared.max(axis=0)
    drawn = {}
    for name in scenario.shares:
        draw = stream(seed, "canaries", name)
        x = np.where(draw.random((count, *low.shape)) < 0.5, low, high).astype(scenario.shared.dtype)
        drawn[name] = Canaries(x, draw.integers(0, len(scenario.classes), count), draw.random(count) < 0.5)
    return drawn


def with_canaries(scenario: Scenario, count: int, seed: int) -> Scenario:
    """The scenario with the canaries that are in among the private rows, after the others."""
    if not count:
        return scenario
    shares = {}
    for name, own in canaries(scenario, count, seed).items():
        share = scenario.shares[name]
        x, y = np.concatenate([share.x, own.x[own.inside]]), np.concatenate([share.y, own.y[own.inside]])
        shares[name] = replace(share, x=x, y=y.astype(share.y.dtype))
    return replace(scenario, shares=shares)
