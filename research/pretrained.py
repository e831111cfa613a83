"""Runs and tables of research/pretrained.md: heads on frozen pretrained backbones under all methods.

CONSILIENCE_DATA=DATA python research/pretrained.py FOLDER COMMAND [SEEDS [DATASET ...]] [+ COMMAND ...]

Every cell (dataset, labels, method, seed) is a line of FOLDER/cells.jsonl; those that are there are not run again.
`tune` runs the variants of the other methods (seeds 0 to 2), `choose` writes the best of each to FOLDER/chosen.json,
`report` runs consensus and the chosen variants (seeds 20 to 29), and `table` prints the tables of what is there.
CONSILIENCE_METHODS and CONSILIENCE_LABELS, if set, name the only methods and labels to run, with commas between.
"""

import fcntl
import json
import os
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from consilience.base.rows import Rows, count, join
from consilience.data.datasets import Request
from consilience.data.loading import load
from consilience.data.scenario import AgentData, Scenario
from consilience.experiments.compare import estimate
from consilience.runtime.driver import run_rounds
from consilience.runtime.ensemble import collective, weights_of
from consilience.settings import wiring
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings, changed
from consilience.settings.wiring import (
    build_agents,
    build_evaluation,
    build_exchange,
    build_scenario,
    crossing_of,
    shared_rows,
    summarise,
)
from consilience.tasks import task_named

Changes = dict[str, Any]
LABELS = ("regular", "wrong")
MOST_ROUNDS, MOST_EXACT, SCORINGS, FINALISTS = 100, 40, 20, 1
"""Rounds of a method in tuning at most, even where equal compute allows more, and with exact steps; how often it is
scored; and how many of its variants, the best with regular labels, are tuned with wrong labels."""


@dataclass(frozen=True)
class Problem:
    """A dataset with its agents."""

    preset: str
    wrong: list[int]
    """Agents whose labels are all wrong in the setting of that name."""
    changes: Changes
    score: str = "accuracy"
    decays: tuple[float, ...] = (2e-5, 5e-4)
    """Of exact steps, to choose from; for pooled data also four times the last."""
    rates: tuple[float, ...] = (0.0005, 0.002)
    """Of Adam, to choose from."""


HEADS = {"method.lam": 0.25, "method.warmup": 0, "method.duals": 1.0, "method.mean": "geometric"} | {
    "method.trust": "gate",
    "method.most_samples": 3.0,
    "run.rounds": 30,
}
"""What agents with a head on a backbone have by themselves."""
HEART = {"agents.models": ["linear"], "training.epochs": 1, "training.solver": "exact", "training.decay": 1e-2}


def with_shared(rows: int) -> Changes:
    """CIFAR-10 with so many shared rows, and as many private and fresh ones as with 300."""
    images = 670 + rows // 10
    return {"data.limit": images, "data.target_fraction": 100 / images, "data.shared_per_agent": rows // 10}


PROBLEMS = {
    "CIFAR-10": Problem("cifar10-pretrained", [2, 9], {}),
    "PACS": Problem("pacs", [1], {}),
    "FDU-MTL": Problem("fdu-mtl", [2, 7, 12], {}),
    "heart disease": Problem(
        "hospitals", [1], HEART | HEADS | {"data.crossed": 500}, decays=(1e-2, 1e-3), rates=(0.002, 0.01)
    ),
    "Fed-ISIC2019": Problem("fed-isic2019-pretrained", [1, 2], {}, "balanced_accuracy"),
    "CIFAR-100": Problem("cifar10-pretrained", [2, 9], {"data.dataset": "cifar100", "data.limit": 70}),
    "CIFAR-10, X* 100": Problem("cifar10-pretrained", [2, 9], with_shared(100)),
    "CIFAR-10, X* 1000": Problem("cifar10-pretrained", [2, 9], with_shared(1000)),
    "CIFAR-10, X* 3000": Problem("cifar10-pretrained", [2, 9], with_shared(3000)),
}
WEIGHTS = ("FedAvg", "SCAFFOLD", "FedDyn", "FedProx")
"""Methods that share weights, as tables call them."""
OTHERS = ("FedDF", "DS-FL")
PAPER: Changes = {"method": "paper", "data.crossed": 0, "method.warmup": 0, "method.lam": 0.5}
"""The paper's method; exact steps, as the agents have them."""
NAMES = ("alone", "paper", "consensus", *WEIGHTS, *OTHERS, "pooled")


def variants(problem: Problem) -> dict[str, dict[str, Changes]]:
    """Of each method that is tuned, by name."""
    decays = {decay: {"training.decay": decay} for decay in (*problem.decays, 4 * max(problem.decays))}
    exact = {f"exact, decay {decay:g}": decays[decay] for decay in problem.decays}
    strong = dict(list(exact.items())[-1:])
    adam = {
        f"Adam {rate:g}": {"training.solver": "steps", "training.batch": 32, "training.lr": rate}
        for rate in problem.rates
    }

    def of(method: str, *more: dict[str, Changes]) -> dict[str, Changes]:
        return {name: {"method": method} | changes for group in more for name, changes in group.items()}

    fast = dict(list(adam.items())[-1:])
    passes = {
        f"{name}, passes {number}": changes | {"method.passes": number}
        for number in (1, 5)
        for name, changes in adam.items()
    }
    apart = {
        f"{name}, passes {number}": changes | {"method.learning": "sequential", "method.learning.passes": number}
        for number in (1, 5)
        for name, changes in adam.items()
    }
    return {
        "FedAvg": of("fedavg", strong, adam),
        "SCAFFOLD": of("scaffold", exact, fast),
        "FedDyn": of("feddyn", strong, fast),
        "FedProx": of("fedprox", fast),
        "FedDF": of("feddf", passes),
        "DS-FL": of("ds-fl", apart),
        "pooled": {f"exact, decay {decay:g}": {"method": "alone"} | changes for decay, changes in decays.items()},
    }


def settings_of(problem: Problem, wrong: bool, changes: Changes, seed: int) -> Settings:
    """The settings of a cell."""
    labels = {"data.low_quality": problem.wrong if wrong else []}
    own = {"run.references": [], "run.seed": seed}
    settings = read_settings(problem.preset, own | labels | problem.changes)
    rest = {key: value for key, value in changes.items() if key != "method"}
    return changed(settings.with_method(changes["method"]) if "method" in changes else settings, rest)


def all_rows(parts: list[Rows]) -> Rows:
    """One after another; arrays in one step, as images are large."""
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else reduce(join, parts)


def load_once(name: str, request: Request) -> Any:
    """A dataset, which no seed changes here; the last one is kept."""
    key = repr((name, replace(request, seed=0)))
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = load(name, request)
    return _loaded[key]


_loaded: dict[str, Any] = {}
wiring.load = load_once


def pooled(scenario: Scenario) -> Scenario:
    """The same with one agent that has the private rows of all agents with good labels."""
    shares = [share for name, share in scenario.shares.items() if name not in scenario.low_quality]
    x, test = all_rows([share.x for share in shares]), all_rows([share.test_x for share in shares])
    y, test_y = np.concatenate([s.y for s in shares]), np.concatenate([s.test_y for s in shares])
    return replace(scenario, shares={"all": AgentData(x, y, test, test_y)}, low_quality=())


def rounds_for(method: str, settings: Settings, consensus: Settings, scenario: Scenario) -> int:
    """Rounds of a method in tuning: as many as consensus has samples for, and at most `MOST_ROUNDS`."""
    if method == "pooled":
        return 60
    private, agents = sum(len(share.y) for share in scenario.shares.values()), len(scenario.shares)
    shared, epochs = count(scenario.shared), settings.training.epochs
    budget = consensus.run.rounds * (private + agents * (shared + crossing_of(consensus, scenario)[0]))
    round_costs = epochs * private
    if method == "DS-FL":
        round_costs += agents * (shared + crossing_of(settings, scenario)[0])
    most = MOST_ROUNDS if settings.training.solver == "steps" else MOST_EXACT
    return max(1, min(most, budget // round_costs))


def measured(settings: Settings, scenario: Scenario, score: str) -> dict[str, Any]:
    """The scores of one run: means over agents with good labels, by round, and at the end the collective's."""
    began, cpu = time.perf_counter(), time.process_time()
    agents = build_agents(settings, scenario)
    summary = summarise(settings, scenario, agents)
    evaluation, exchange = build_evaluation(settings, scenario), build_exchange(settings, scenario)
    run = run_rounds(agents, shared_rows(settings, scenario), exchange, settings.method, summary, evaluation)
    good = {agent.name for agent in run.summary.agents if agent.good}
    metrics = run.metrics[run.metrics["agent"].isin(good)].dropna(subset=[f"{score}_target"])
    rounds = metrics.groupby("round")
    result: dict[str, Any] = {"rounds": sorted(map(int, rounds.groups))}
    for place in ("target", "shared", "own"):
        if f"{score}_{place}" in metrics:
            result[place] = [round(float(v), 5) for v in rounds[f"{score}_{place}"].mean()]
    result["worst"] = [round(float(v), 5) for v in rounds[f"{score}_target"].min()]
    task = task_named(scenario.task)
    measure = next(s for s in task.scores if s.name == score).measure
    f = {agent.name: agent.predict(scenario.target_x) for agent in agents}
    result["collective"] = round(float(measure(collective(weights_of(run), f, task).predictions, scenario.target_y)), 5)
    result["bytes"] = int(run.metrics["bytes_sent"].sum() / len(run.names))
    result["trained"] = int(run.metrics["samples_trained"].sum())
    if len(run.trust):
        w = run.trust[-1]
        result["shut_out"] = [name for j, name in enumerate(run.names) if np.delete(w[:, j], j).max() < 1e-9]
    result["seconds"] = round(time.perf_counter() - began, 1)
    result["cpu"] = round(time.process_time() - cpu, 1)
    return result


Cell = tuple[str, str, str, int]
"""Dataset, labels, method (of tuning with its variant), seed."""


class Cells:
    """The file of results."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.choices = folder / "cells.jsonl", folder / "chosen.json"
        self.path.touch()

    def read(self) -> dict[Cell, dict[str, Any]]:
        """All results."""
        lines = [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]
        return {tuple(line.pop("cell")): line for line in lines}

    def add(self, cell: Cell, result: dict[str, Any]) -> None:
        """Appends one."""
        with self.path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps({"cell": cell} | result) + "\n")

    def chosen(self) -> dict[str, Any]:
        """By dataset, labels and method: variant, rounds, seeds."""
        return json.loads(self.choices.read_text()) if self.choices.exists() else {}


def only(name: str, of: list[str]) -> list[str]:
    """Those of them that the environment variable names, or all."""
    asked = os.environ.get(name, "")
    return [one for one in of if not asked or one in asked.split(",")]


def run_cells(cells: Cells, dataset: str, labels: str, seed: int, methods: dict[str, Changes]) -> None:
    """Runs those of the methods (of tuning: `method/variant`) that are not there yet, on one split."""
    problem, known = PROBLEMS[dataset], cells.read()
    todo = {name: changes for name, changes in methods.items() if (dataset, labels, name, seed) not in known}
    if not todo:
        return
    usual = settings_of(problem, labels == "wrong", {}, seed)
    scenario = build_scenario(usual)
    for name, changes in todo.items():
        method = name.split("/")[0]
        settings = settings_of(problem, labels == "wrong", changes, seed)
        if "/" in name:
            settings = changed(settings, {"run.rounds": rounds_for(method, settings, usual, scenario)})
            every = max(1, settings.run.rounds // SCORINGS)
        else:
            every = max(5, settings.run.rounds // SCORINGS)
        settings = changed(settings, {"run.evaluate_every": every})
        if method == "pooled":
            settings = changed(settings, {"data.low_quality": []})
        print(f"{time.strftime('%H:%M:%S')} {dataset} | {labels} | {name} | {seed}", flush=True)
        result = measured(settings, pooled(scenario) if method == "pooled" else scenario, problem.score)
        cells.add((dataset, labels, name, seed), result)
        best = int(np.argmax(result["target"]))
        print(
            f"    {result['target'][-1]:.3f} worst {result['worst'][-1]:.3f}, best {result['target'][best]:.3f} in "
            f"round {result['rounds'][best]}; {result['seconds']} s, cpu {result['cpu']} s",
            flush=True,
        )


def tune(cells: Cells, seeds: list[int], datasets: list[str]) -> None:
    """Runs all variants with regular labels, then the best of each method with wrong ones."""
    for dataset in datasets:
        families = variants(PROBLEMS[dataset])
        methods = only("CONSILIENCE_METHODS", list(families))
        for labels in only("CONSILIENCE_LABELS", list(LABELS)):
            for seed in seeds:
                names = {m: list(families[m]) if labels == "regular" else finalists(cells, dataset, m) for m in methods}
                each = {f"{m}/{variant}": families[m][variant] for m in methods for variant in names[m]}
                run_cells(cells, dataset, labels, seed, each)


def curves(cells: Cells) -> dict[tuple[str, str, str], dict[str, dict[int, float]]]:
    """Mean scores on fresh data in tuning: by dataset, labels and method; by variant; by round."""
    runs: dict[tuple[str, str, str], dict[str, list[dict[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for (dataset, labels, name, _), result in cells.read().items():
        if "/" in name:
            method, variant = name.split("/")
            runs[dataset, labels, method][variant].append(dict(zip(result["rounds"], result["target"], strict=True)))
    means: dict[tuple[str, str, str], dict[str, dict[int, float]]] = {}
    for key, by_variant in runs.items():
        most = max(map(len, by_variant.values()))
        complete = {variant: curves for variant, curves in by_variant.items() if len(curves) == most}
        means[key] = {
            variant: {t: float(np.mean([c[t] for c in each])) for t in sorted(set.intersection(*map(set, each)))}
            for variant, each in complete.items()
        }
    return means


def finalists(cells: Cells, dataset: str, method: str) -> list[str]:
    """The best variants of a method with regular labels."""
    by_variant = curves(cells).get((dataset, "regular", method), {})
    return sorted(by_variant, key=lambda variant: -max(by_variant[variant].values()))[:FINALISTS]


def choose(cells: Cells) -> None:
    """Chooses the variant and the number of rounds of each method; once it has been used it stays."""
    used = {(dataset, labels, name) for dataset, labels, name, _ in cells.read()}
    chosen = cells.chosen()
    for (dataset, labels, method), by_variant in curves(cells).items():
        if (dataset, labels, method) not in used:
            score, variant, t = max((s, v, t) for v, curve in by_variant.items() for t, s in curve.items())
            entry = {"variant": variant, "rounds": t, "score": round(score, 4)}
            chosen.setdefault(dataset, {}).setdefault(labels, {})[method] = entry
    cells.choices.write_text(json.dumps(chosen, indent=1))


def report(cells: Cells, seeds: list[int], datasets: list[str]) -> None:
    """Runs consensus, agents alone and the chosen variants."""
    for seed in seeds:
        for dataset in datasets:
            for labels in only("CONSILIENCE_LABELS", list(LABELS)):
                families = variants(PROBLEMS[dataset])
                methods: dict[str, Changes] = {"consensus": {}, "alone": {"method": "alone"}, "paper": PAPER}
                tuned_on = dataset.split(", X*")[0]
                for method, entry in cells.chosen().get(tuned_on, {}).get(labels, {}).items():
                    methods[method] = families[method][entry["variant"]] | {"run.rounds": entry["rounds"]}
                names = only("CONSILIENCE_METHODS", list(methods))
                run_cells(cells, dataset, labels, seed, {name: methods[name] for name in names})


def table(cells: Cells) -> None:
    """Prints a table for each dataset and kind of labels, with paired differences."""
    known = cells.read()
    for dataset, problem in PROBLEMS.items():
        for labels in LABELS:
            by_seed: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
            for (d, kind, name, seed), result in known.items():
                if (d, kind) == (dataset, labels) and "/" not in name:
                    by_seed[name][seed] = result
            if "consensus" in by_seed:
                print(f"\n### {dataset}, {labels} labels ({problem.score.replace('_', ' ')})\n")
                print_table(by_seed, cells.chosen().get(dataset.split(", X*")[0], {}).get(labels, {}))


def print_table(by_seed: dict[str, dict[int, dict[str, Any]]], chosen: dict[str, Any]) -> None:
    """One table, of the seeds that all methods have."""
    common = set.intersection(*(set(runs) for runs in by_seed.values()))
    by_seed = {name: {seed: runs[seed] for seed in common} for name, runs in by_seed.items()}
    if not common:
        return
    print("| method | X\\* | fresh | own | worst agent | collective | MB sent by an agent | seeds | tuned |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    means = {name: np.mean([r["target"][-1] for r in runs.values()]) for name, runs in by_seed.items()}
    for name in (name for name in NAMES if name in by_seed):
        runs = by_seed[name].values()

        def mean(place: str, runs: Any = runs) -> str:
            values = [np.ravel(r[place])[-1] for r in runs if place in r]
            return f"{np.mean(values):.3f}".lstrip("0") if values and np.isfinite(values).all() else ""

        entry = chosen.get(name, {})
        tuned = f"{entry['variant']}, {entry['rounds']} rounds" if entry else "30 rounds"
        seeds, sent = sorted(by_seed[name]), np.mean([r["bytes"] for r in runs]) / 1e6
        cells = [mean(place) for place in ("shared", "target", "own", "worst", "collective")]
        print(f"| {name} | {' | '.join(cells)} | {sent:.2f} | {seeds[0]}-{seeds[-1]} ({len(seeds)}) | {tuned} |")
    print()
    rivals = [name for name in WEIGHTS if name in by_seed]
    best = max(rivals, key=lambda name: means[name]) if rivals else ""
    for other in [*([best] if best else []), *(name for name in ("pooled", "paper", "alone") if name in by_seed)]:
        seeds = sorted(set(by_seed["consensus"]) & set(by_seed[other]))
        less = [by_seed["consensus"][seed]["target"][-1] - by_seed[other][seed]["target"][-1] for seed in seeds]
        together = [by_seed["consensus"][seed]["collective"] - by_seed[other][seed]["target"][-1] for seed in seeds]
        what = f"{other} (the best that shares weights)" if other == best else other
        print(
            f"- consensus less {what}: {estimate(np.array(less)).text(signed=True)} "
            f"(collective {estimate(np.array(together)).text(signed=True)}), {len(seeds)} seeds"
        )
    out = {seed: r["shut_out"] for seed, r in sorted(by_seed["consensus"].items()) if r.get("shut_out")}
    print(f"- shut out by consensus, by seed: {out or 'nobody'}")


def numbers(text: str) -> list[int]:
    """Seeds such as 0-2 or 20,23."""
    parts = [part.split("-") for part in text.split(",")]
    return [seed for part in parts for seed in range(int(part[0]), int(part[-1]) + 1)]


def run(cells: Cells, command: str, seeds: str = "", *datasets: str) -> None:
    """Runs a command."""
    if command in ("tune", "report"):
        {"tune": tune, "report": report}[command](cells, numbers(seeds), list(datasets) or list(PROBLEMS))
    else:
        {"choose": choose, "table": table}[command](cells)


if __name__ == "__main__":
    folder, *commands = sys.argv[1:]
    for _, group in groupby(commands, key=lambda word: word == "+"):
        words = list(group)
        if words != ["+"]:
            run(Cells(Path(folder)), *words)
