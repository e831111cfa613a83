"""The toy experiments, computed once, and runs made by hand, whose numbers are known without training anything."""

from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd
import pytest

from consilience.paper import fig1, fig2, figA1
from consilience.paper.artefact import Need
from consilience.paper.scales import job
from consilience.runtime.run import Run
from consilience.runtime.summary import AgentSummary, Summary
from consilience.workers.job import Job

ROUNDS, WARMUP, SHARED, CLASSES, PARAMETERS = 5, 2, 100, 10, 3000


@pytest.fixture(scope="package")
def three_polynomials() -> fig1.Fig1:
    return fig1.compute(seed=0)


@pytest.fixture(scope="package")
def weak_among_strong() -> figA1.FigA1:
    return figA1.compute(seed=0)


@pytest.fixture(scope="package")
def four_networks() -> fig2.Fig2:
    return fig2.compute(seed=0)


def made_runs(needs: Iterable[Need], seeds: Iterable[int] = (0,)) -> list[tuple[Job, Run]]:
    """A run with random scores and trust for every need and seed, in the order of an artefact's jobs."""
    return [_made(job(*need, "smoke", seed, Path("made"))) for seed in seeds for need in needs]


def _made(one: Job) -> tuple[Job, Run]:
    draw = np.random.default_rng(crc32(str(one.folder).encode()))
    count, models = one.settings.agents.count, one.settings.agents.models
    agents = [
        AgentSummary(str(n), models[n % len(models)], 50, n in one.settings.data.low_quality, PARAMETERS, [5] * CLASSES)
        for n in range(count)
    ]
    metrics = pd.DataFrame(
        [(t, agent.name, *draw.random(2), 1000 * t) for t in range(1, ROUNDS + 1) for agent in agents],
        columns=["round", "agent", "accuracy_shared", "balanced_accuracy_shared", "bytes_sent"],
    )
    metrics = metrics.assign(
        accuracy_target=metrics["accuracy_shared"] ** 2, accuracy_own=metrics["accuracy_shared"] ** 3, samples_trained=7
    )
    trust = draw.dirichlet(np.ones(count), size=(ROUNDS - WARMUP, count))
    method = one.settings.method
    summary = Summary(method.label, method.title, "classification", ROUNDS, WARMUP, SHARED, agents, ["c"] * CLASSES)
    return one, Run(metrics, trust, np.arange(WARMUP + 1, ROUNDS + 1), summary)
