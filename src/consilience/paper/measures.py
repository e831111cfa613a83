"""Measures of finished runs for artefacts."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from consilience.runtime.run import Run

Key = TypeVar("Key", bound=Hashable)


def score_of(dataset: str) -> str:
    """The paper's score on X*: balanced accuracy for Fed-ISIC2019, accuracy otherwise."""
    return "balanced_accuracy_shared" if dataset == "fed-isic2019" else "accuracy_shared"


def mean_score(run: Run, dataset: str) -> float:
    """Mean over the agents with good labels after the last round."""
    table = run.last_round()
    return float(table[~table["low_quality"]][score_of(dataset)].mean())


def intervals(scores: Mapping[Key, Sequence[float]]) -> dict[Key, tuple[float, float]]:
    """Mean and half-width of the 95 % interval over seeds, NaN for a single seed."""
    from consilience.experiments.compare import estimate

    estimates = {key: estimate(values) for key, values in scores.items()}
    return {key: (estimated.mean, estimated.half_width) for key, estimated in estimates.items()}


def marked_agents(run: Run) -> list[int]:
    """Agents with wrong labels or a weak model, by number."""
    weak = len({agent.model for agent in run.summary.agents}) > 1
    agents = enumerate(run.summary.agents)
    return [n for n, agent in agents if agent.low_quality or (weak and agent.model == "linear")]
