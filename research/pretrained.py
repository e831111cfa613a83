"""Runs and tables of research/pretrained.md: heads on frozen pretrained backbones under all methods.

CONSILIENCE_DATA=DATA python research/pretrained.py FOLDER tune|report|table [DATASET ...]

Every cell (dataset, labels, method, seed) is a line of FOLDER/cells.jsonl; those that are there are not run again.
`tune` runs the rivals' variants on seeds 0 to 2, `report` runs consensus and the chosen variants on `SEEDS`, and
`table` prints the tables of what is there.
"""

import fcntl
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.rows import Rows, join
from consilience.data.scenario import AgentData, Scenario
from consilience.runtime.driver import run_rounds
from consilience.runtime.ensemble import collective, weights_of
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings, changed
from consilience.settings.wiring import (
    build_agents,
    build_evaluation,
    build_exchange,
    build_scenario,
    shared_rows,
    summarise,
)
from consilience.tasks import task_named

Changes = dict[str, Any]
TUNING, SEEDS = (0, 1, 2), tuple(range(20, 30))
EVERY = 5
"""Rounds from one scoring to the next."""


@dataclass(frozen=True)
class Problem:
    """A dataset with its agents."""

    preset: str
    wrong: list[int]
    """Agents whose labels are all wrong in the setting of that name."""
    changes: Changes
    score: str = "accuracy"
    shared: tuple[int, ...] = ()
    """Other sizes of X*."""


PROBLEMS = {
    "CIFAR-10": Problem("cifar10-pretrained", [2, 9], {}, shared=(100, 1000, 3000)),
    "PACS": Problem("pacs", [1], {}),
    "FDU-MTL": Problem("fdu-mtl", [2, 7, 12], {}),
    "heart disease": Problem(
        "hospitals",
        [1],
        {"agents.models": ["linear"], "training.epochs": 1, "training.solver": "exact", "training.decay": 1e-2}
        | {"data.crossed": 500, "method.lam": 0.25, "method.warmup": 0},
    ),
    "Fed-ISIC2019": Problem("fed-isic2019-pretrained", [1, 2], {}, "balanced_accuracy"),
    "CIFAR-100": Problem("cifar10-pretrained", [2, 9], {"data.dataset": "cifar100", "data.limit": 70}),
}
ADAM = {"training.solver": "steps", "training.batch": 32}
METHODS: dict[str, Changes] = {
    "alone": {"method": "alone", "run.rounds": 30},
    "paper": {"method": "paper", "method.warmup": 0, "method.lam": 0.5, "method.duals": 0.0, "data.crossed": 0},
    "consensus": {},
    "pooled": {"method": "alone", "run.rounds": 30},
}


def settings_of(problem: Problem, wrong: bool, changes: Changes, seed: int) -> Settings:
    """The settings of a cell."""
    labels = {"data.low_quality": problem.wrong if wrong else []}
    own = {"run.references": [], "run.evaluate_every": EVERY, "run.seed": seed}
    settings = read_settings(problem.preset, own | labels | problem.changes)
    rest = {key: value for key, value in changes.items() if key != "method"}
    return changed(settings.with_method(changes["method"]) if "method" in changes else settings, rest)


def pooled(scenario: Scenario, honest: bool) -> Scenario:
    """The same with one agent that has all private rows, or those of agents with good labels."""
    shares = [s for name, s in scenario.shares.items() if not honest or name not in scenario.low_quality]
    x: Rows = shares[0].x
    test: Rows = shares[0].test_x
    for share in shares[1:]:
        x, test = join(x, share.x), join(test, share.test_x)
    y, test_y = np.concatenate([s.y for s in shares]), np.concatenate([s.test_y for s in shares])
    return replace(scenario, shares={"all": AgentData(x, y, test, test_y)}, low_quality=())


def measured(settings: Settings, scenario: Scenario, score: str) -> dict[str, Any]:
    """The scores of one run: means over agents with good labels, by round, and at the end the collective's."""
    began = time.perf_counter()
    agents = build_agents(settings, scenario)
    summary = summarise(settings, scenario, agents)
    evaluation, exchange = build_evaluation(settings, scenario), build_exchange(settings, scenario)
    run = run_rounds(agents, shared_rows(settings, scenario), exchange, settings.method, summary, evaluation)
    good = {agent.name for agent in run.summary.agents if agent.good}
    metrics = run.metrics[run.metrics["agent"].isin(good)].dropna(subset=[f"{score}_target"])
    rounds = metrics.groupby("round")
    result: dict[str, Any] = {"rounds": sorted(map(int, rounds.groups))}
    for place in ("target", "shared", "own"):
        result[place] = [round(float(v), 5) for v in rounds[f"{score}_{place}"].mean()]
    result["worst"] = [round(float(v), 5) for v in rounds[f"{score}_target"].min()]
    task = task_named(scenario.task)
    measure = next(s for s in task.scores if s.name == score).measure
    f = {agent.name: agent.predict(scenario.target_x) for agent in agents}
    result["collective"] = round(float(measure(collective(weights_of(run), f, task).predictions, scenario.target_y)), 5)
    per_agent = run.metrics["bytes_sent"].sum() / len(run.names)
    result["bytes"] = int(per_agent)
    result["trained"] = int(run.metrics["samples_trained"].sum())
    if len(run.trust):
        w = run.trust[-1]
        out = [name for j, name in enumerate(run.names) if np.delete(w[:, j], j).max() < 1e-9]
        result["shut_out"] = out
    result["seconds"] = round(time.perf_counter() - began, 1)
    return result


class Cells:
    """The file of results."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "cells.jsonl"
        self.path.touch()

    def read(self) -> dict[str, dict[str, Any]]:
        """All results by key."""
        lines = [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]
        return {line.pop("key"): line for line in lines}

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Appends one."""
        with self.path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps({"key": key} | result) + "\n")


def key_of(dataset: str, labels: str, method: str, seed: int) -> str:
    """The key of a cell."""
    return f"{dataset}|{labels}|{method}|{seed}"


def run_cells(
    cells: Cells, dataset: str, labels: str, seed: int, methods: dict[str, Changes], base: Changes | None = None
) -> None:
    """Runs those of the methods that are not there yet, on one split."""
    problem, known = PROBLEMS[dataset], cells.read()
    split: tuple[str, Scenario] | None = None
    for method, changes in methods.items():
        key = key_of(dataset, labels, method, seed)
        if key in known:
            continue
        settings = settings_of(problem, labels != "regular", (base or {}) | changes, seed)
        print(f"{time.strftime('%H:%M:%S')} {key}", flush=True)
        data = repr(replace(settings.data, crossed=0))
        if split is None or split[0] != data:
            split = (data, build_scenario(settings))
        scenario = split[1]
        if method.startswith("pooled"):
            settings = changed(settings, {"data.low_quality": []})
            scenario = pooled(scenario, "honest" in method)
        result = measured(settings, scenario, problem.score)
        cells.add(key, result)
        print(f"    {result['target'][-1]:.3f} worst {result['worst'][-1]:.3f} {result['seconds']} s", flush=True)
