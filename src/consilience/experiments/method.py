"""One method on one split: agents are built, trained and recorded in a folder."""

from dataclasses import replace
from pathlib import Path

from consilience.experiments.build import build_agents, build_scenario, describe
from consilience.experiments.folders import write_config
from consilience.experiments.settings import Settings
from consilience.runtime.exchange import InMemory
from consilience.runtime.history import Evaluation
from consilience.runtime.run import OnRound, carry_out
from consilience.runtime.wire import Wire


def run_method(settings: Settings, method: str, folder: Path, on_round: OnRound | None = None) -> None:
    """Runs `method` into `folder`, going on from the last checkpoint there."""
    write_config(settings if method == settings.method else replace(settings, method=method), folder)
    scenario = build_scenario(settings)
    agents = build_agents(settings, scenario)
    own = {name: (share.test_x, share.test_y) for name, share in scenario.shares.items()}
    carry_out(
        agents,
        scenario.shared,
        InMemory(tuple(scenario.shares), Wire(settings.wire, settings.wire_top)),
        settings.algorithm(method),
        evaluation=Evaluation(scenario.shared_y, (scenario.target_x, scenario.target_y), own),
        facts=describe(settings, scenario, agents, method),
        folder=folder,
        threads=settings.threads,
        on_round=on_round,
    )
