"""Collective prediction compared with the mean agent, the best agent and an even mixture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from consilience.experiments.compare import Estimate, compare, estimate
from consilience.experiments.run import restore
from consilience.runtime.callbacks import Callback
from consilience.runtime.ensemble import AgentWeights, collective, weights_of
from consilience.settings.settings import Settings
from consilience.tasks import task_named


@dataclass(frozen=True)
class CollectiveLine:
    """One method: scores on the target domain, means over seeds; differences are paired, seed by seed."""

    title: str
    mean: float
    """Mean over agents with good labels."""
    best: float
    """The best agent, chosen on the test samples: it is unknown beforehand."""
    even: float
    """An even mixture of all agents' predictions."""
    collective: float
    over_mean: Estimate
    over_best: Estimate
    over_even: Estimate


def measure_collective(
    settings: Settings,
    methods: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    workers: int = 0,
    callbacks: Sequence[Callback] = (),
    equal_compute: bool = False,
) -> tuple[str, list[CollectiveLine]]:
    """Runs a comparison into `folder`; returns the score's title and a line for each method."""
    compared = compare(settings, methods, seeds, folder, workers, callbacks, equal_compute)
    lines = [
        _line(compared.titles[method], [_scores(folder / f"seed-{seed}" / method) for seed in seeds])
        for method in methods
    ]
    return compared.scores[0].title, lines


def _scores(folder: Path) -> tuple[float, float, float, float, float]:
    """Scores of a run (mean agent, best agent, even mixture, collective); and 1, or -1 where lower is better."""
    restored = restore(folder)
    task, names = task_named(restored.scenario.task), restored.run.names
    score = task.scores[0]
    x, y = restored.scenario.target_x, restored.scenario.target_y
    by_agent = {agent.name: agent.predict(x) for agent in restored.agents}
    good = {agent.name for agent in restored.run.summary.agents if agent.good}
    each = [score.measure(f, y) for name, f in by_agent.items() if name in good]
    even = AgentWeights(tuple(names), np.full(len(names), 1 / len(names)))
    mixed = [
        score.measure(collective(weights, by_agent, task).predictions, y)
        for weights in (even, weights_of(restored.run))
    ]
    best = max(each) if score.higher_is_better else min(each)
    return float(np.mean(each)), best, mixed[0], mixed[1], 1.0 if score.higher_is_better else -1.0


def _line(title: str, runs: list[tuple[float, float, float, float, float]]) -> CollectiveLine:
    mean, best, even, mixed, sign = np.array(runs).T
    differences = [estimate(sign * (mixed - other)) for other in (mean, best, even)]
    return CollectiveLine(title, mean.mean(), best.mean(), even.mean(), mixed.mean(), *differences)
