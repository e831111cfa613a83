"""One job in this process: agents are built, trained and recorded in a folder."""

from collections.abc import Callable
from pathlib import Path
from typing import final

import numpy as np

from consilience.agents.backbones.feature_cache import watched
from consilience.base.errors import ConsilienceError
from consilience.base.malloc import give_memory_back, keep_memory
from consilience.base.rows import values_of
from consilience.data.scenario import Scenario
from consilience.runtime.callbacks import Computed, EventSink
from consilience.runtime.driver import run_rounds
from consilience.runtime.run import Run
from consilience.settings.presets import write_config
from consilience.settings.settings import Settings
from consilience.settings.wiring import (
    build_agents,
    build_evaluation,
    build_exchange,
    build_scenario,
    shared_rows,
    summarise,
)
from consilience.workers.group import WorkerExchange, WorkerGroup
from consilience.workers.scheduling import balance, expected_costs


@final
class LastData:
    """The data of settings. Those of the last ones are kept: methods that are compared on a seed have the same."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._scenario: Scenario | None = None

    def __call__(self, settings: Settings) -> Scenario:
        """The scenario of these settings."""
        if self._scenario is None or self._key != settings.data_key:
            self._scenario = None
            self._key, self._scenario = settings.data_key, build_scenario(settings)
        return self._scenario


def work(
    settings: Settings,
    folder: Path,
    emit: EventSink = lambda event: None,
    *,
    worker: int = 0,
    workers: int = 1,
    data: Callable[[Settings], Scenario] = build_scenario,
) -> Run | None:
    """Runs the method of `settings` into `folder`, going on from the last checkpoint there.

    With several `workers`, which have joined before, this one trains its part of the agents; the first one writes, and
    reports the rounds. Without agents there is no run.
    """
    keep_memory()
    if worker == 0:
        write_config(settings, folder)
    with watched(lambda *news: emit(Computed(*news))):
        return _work(settings, folder, emit, worker, workers, data(settings))


def _work(
    settings: Settings, folder: Path, emit: EventSink, worker: int, workers: int, scenario: Scenario
) -> Run | None:
    roster = tuple(scenario.shares)
    agents_by_worker = [list(roster)]
    if workers > 1:
        samples = {name: len(share.y) for name, share in scenario.shares.items()}
        agents_by_worker = balance(expected_costs(settings, samples, values_of(scenario.shared)), workers)
    exchange, group = build_exchange(settings, scenario), None
    if len(agents_by_worker) > 1:
        group = WorkerGroup(agents_by_worker, worker, roster)
        exchange = WorkerExchange(exchange, group)
    if worker >= len(agents_by_worker):
        return None
    agents = build_agents(settings, scenario, agents_by_worker[worker])
    summary = summarise(settings, scenario, agents)
    if group is not None:
        _check_same_data(summary.data, group)
    shared, evaluation = shared_rows(settings, scenario), build_evaluation(settings, scenario, agents_by_worker[worker])
    del scenario  # frees what other workers' agents hold
    give_memory_back()
    return run_rounds(
        agents,
        shared,
        exchange,
        settings.method,
        summary,
        evaluation,
        folder=folder,
        threads=settings.run.threads,
        emit=emit,
        group=group,
        hold_out="alone" in settings.run.references,
    )


def _check_same_data(fingerprint: str, group: WorkerGroup) -> None:
    """Refuses workers that read other data than the first one did."""
    firsts = group.from_first({"data": np.frombuffer(fingerprint.encode(), dtype=np.uint8)})["data"].tobytes().decode()
    if fingerprint != firsts:
        raise ConsilienceError(
            f"worker {group.number} read other data (fingerprint {fingerprint[:12]}) than the first ({firsts[:12]}). "
            "Put the same data on every machine, and name their folder in the environment variable CONSILIENCE_DATA."
        )
