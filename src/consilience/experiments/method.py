"""One method on one split: agents are built, trained and recorded in a folder."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from consilience.errors import ConsilienceError
from consilience.experiments.build import build_agents, build_scenario, describe
from consilience.experiments.folders import write_config
from consilience.experiments.news import Finished, News, Started, Trained
from consilience.experiments.settings import Settings
from consilience.experiments.spread import expected_costs, spread
from consilience.runtime.exchange import InMemory
from consilience.runtime.history import Evaluation
from consilience.runtime.run import carry_out
from consilience.runtime.wire import Wire
from consilience.runtime.workers import Group, Spread, keep_memory


def run_method(
    settings: Settings,
    method: str,
    folder: Path,
    tell: Callable[[News], None] = lambda news: None,
    *,
    worker: int = 0,
    workers: int = 1,
) -> None:
    """Runs `method` into `folder`, going on from the last checkpoint there.

    With several `workers`, which have joined before, this one trains its part of the agents and tells of them; the
    first one writes, and tells of rounds.
    """
    keep_memory()
    if worker == 0:
        write_config(settings if method == settings.method else replace(settings, method=method), folder)
    scenario = build_scenario(settings)
    roster = tuple(scenario.shares)
    samples = {name: len(share.y) for name, share in scenario.shares.items()}
    costs = expected_costs(settings, samples, scenario.shared[0].size)
    holders = spread(costs, workers)
    group = Group(holders, worker, roster)
    if worker >= group.size:
        return
    tell(Started(tuple(tuple(names) for names in holders)))
    agents = build_agents(settings, scenario, holders[worker])
    facts = describe(settings, scenario, agents, method)
    _same_data(facts["data"], group)
    own = {name: (share.test_x, share.test_y) for name, share in scenario.shares.items()}
    carry_out(
        agents,
        scenario.shared,
        Spread(InMemory(roster, Wire(settings.wire, settings.wire_top)), group),
        settings.algorithm(method),
        evaluation=Evaluation(scenario.shared_y, (scenario.target_x, scenario.target_y), own),
        facts=facts,
        folder=folder,
        threads=settings.threads,
        on_round=lambda number, means: tell(Finished(number, means)),
        on_trained=lambda name: tell(Trained(name, worker)),
        group=group,
    )


def _same_data(fingerprint: str, group: Group) -> None:
    """Refuses workers that read other data than the first one did."""
    firsts = group.from_first({"data": np.frombuffer(fingerprint.encode(), dtype=np.uint8)})["data"].tobytes().decode()
    if fingerprint != firsts:
        raise ConsilienceError(
            f"worker {group.number} read other data (fingerprint {fingerprint[:12]}) than the first ({firsts[:12]}). "
            "Put the same data on every machine, and name their folder with --data-dir or CONSILIENCE_DATA."
        )
