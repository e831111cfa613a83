"""Runs of research/crossed.md: crossed rows, where they help, what they cost, and the gate that goes with them.

CONSILIENCE_DATA=DATA python research/crossed.py FOLDER SECTION SEEDS [WORDS]      # goes on where it was stopped
CONSILIENCE_DATA=DATA python research/crossed.py FOLDER table [SECTION]

SECTION is one of many, wire, kinds, attacks, absent, both, backbones, nothing; of its rows those are run whose name
contains WORDS. A run is a line of FOLDER/runs.jsonl: accuracy on fresh data, in the mean over agents with good labels
and of the worst of them, by round; bytes that an agent sends a peer in a round; and who was shut out.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from consilience.experiments.axes import parse_seeds
from consilience.methods.protocol import Exchange, Received
from consilience.runtime.driver import run_rounds
from consilience.runtime.ensemble import collective, weights_of
from consilience.settings.presets import read_settings
from consilience.settings.wiring import (
    build_agents,
    build_evaluation,
    build_exchange,
    build_scenario,
    shared_rows,
    summarise,
)

Changes = dict[str, Any]
HEADS = 'consensus(warmup=0, lam=0.25, mean="geometric", most_samples=3.0, duals=1.0, trust="gate")'
LINEAR = {"models": ["linear"], "solver": "exact", "epochs": 1, "low_quality": []}
DIGITS = LINEAR | {"method": HEADS, "rounds": 50, "evaluate_every": 5}
SMALL = {"shared_per_agent": 10, "low_quality": []}
CIFAR = {"data.limit": 300, "data.target_fraction": 0.2, "shared_per_agent": 60}
ATTACKS = "flip random constant least-likely runner-up collusion stale worst-honest copy echo echo-each targeted"
BAD = [2, 9]


def wire() -> dict[str, tuple[str, Changes]]:
    """Forms of predictions."""
    usual = SMALL | LINEAR | {"method": HEADS, "rounds": 30, "crossed": 1000}
    rows = {"float32": {}, "float16": {"method.wire.form": "float16"}, "none crossed": {"crossed": 0}}
    return {name: ("digits", usual | changes) for name, changes in rows.items()}


def kinds() -> dict[str, tuple[str, Changes]]:
    """Agents that are no heads, by the number of crossed rows."""
    digits = {
        "mixed": {},
        "forest": {"models": ["forest"]},
        "boosting": {"models": ["boosting"]},
        "mlp": {"models": ["mlp"]},
        "linear": {"models": ["linear"], "solver": "exact", "epochs": 1},
        "private": {"models": ["linear"], "epsilon": 8.0},
    }
    agents: dict[str, tuple[str, Changes]] = {name: ("digits", SMALL | changes) for name, changes in digits.items()}
    agents |= {"breast-cancer": ("breast-cancer", {"shared_limit": 40}), "hospitals": ("hospitals", {})}
    return {
        f"{name}, {number}": (preset, changes | {"crossed": number})
        for number in (0, 300)
        for name, (preset, changes) in agents.items()
    }


def attacks() -> dict[str, tuple[str, Changes]]:
    """Two attackers of ten."""
    rows: dict[str, Changes] = {"none": {}, "wrong labels": {"low_quality": BAD}}
    rows |= {attack: {"attackers": BAD, "attack": attack} for attack in (*ATTACKS.split(), "sleeper", "stratum")}
    for attack in ("echo", "targeted"):
        rows[f"{attack}, agreement alone"] = rows[attack] | {"method.trust.furthest": 0.0}
    for trust in ("uniform", "lowest"):
        rows[f"wrong labels, {trust}"] = rows["wrong labels"] | {"method.trust": trust}
    return {name: ("digits", DIGITS | changes) for name, changes in rows.items()}


def absent() -> dict[str, tuple[str, Changes]]:
    """Agents that are away in some rounds, `away`, and return."""
    wrong = {"low_quality": BAD}
    plans: dict[str, Changes] = {
        "none away": {},
        "3 and 4 in 6 to 20": {"away": [[3, 4], 6, 20]},
        "3 and 4 from 1 to 20": {"away": [[3, 4], 1, 20]},
        "3 and 4 in 6 to 7": {"away": [[3, 4], 6, 7]},
        "3 and 4 in 6 to 8": {"away": [[3, 4], 6, 8]},
        "3 and 4 in 6 to 10": {"away": [[3, 4], 6, 10]},
        "each in three of ten rounds": {"away": 0.3},
        "each in six of ten rounds": {"away": 0.6},
    }
    rows = plans | {f"wrong labels, {name}": plan | wrong for name, plan in plans.items()}
    rows["wrong labels, 2 and 9 from 1 to 20"] = wrong | {"away": [BAD, 1, 20]}
    by_preset = {f"digits, {name}": ("digits", DIGITS | row) for name, row in rows.items()}
    heads = {"rounds": 50, "evaluate_every": 5, "crossed": 1000}
    return by_preset | {f"CIFAR-10, {name}": ("cifar10-pretrained", heads | row) for name, row in rows.items()}


SECTIONS: dict[str, dict[str, tuple[str, Changes]]] = {
    "many": {str(n): ("cifar10-pretrained", {"crossed": n}) for n in (0, 300, 1000, 3000, 10_000)},
    "wire": wire(),
    "kinds": kinds(),
    "attacks": attacks(),
    "absent": absent(),
    "both": {
        f"{name}, {solver}": (preset, changes | {"solver": solver})
        for name, preset, changes in (("digits-mlp", "digits-mlp", {"rounds": 30}), ("cifar10", "cifar10", CIFAR))
        for solver in ("steps", "both")
    },
    "backbones": {
        "both, 3000": ("cifar10-pretrained", {"models": ["efficientnet-lite0", "efficientnet-lite1"]}),
        "both, 0": ("cifar10-pretrained", {"models": ["efficientnet-lite0", "efficientnet-lite1"], "crossed": 0}),
        "both, alone": (
            "cifar10-pretrained",
            {"models": ["efficientnet-lite0", "efficientnet-lite1"], "method": "alone"},
        ),
    },
    "nothing": {
        f"{name}, {number}": (preset, changes | {"crossed": number})
        for name, preset, changes in (
            ("digits, cnn", "digits", SMALL | {"models": ["cnn"]}),
            ("cifar10, convnet", "cifar10", CIFAR),
        )
        for number in (0, 600)
    },
}


class Away:
    """An exchange in which agents are not heard, and hear nobody, in some rounds."""

    def __init__(self, within: Exchange, plan: Any, seed: int) -> None:
        self.roster, self.samples = within.roster, getattr(within, "samples", {})
        self._within, self._plan, self._seed = within, plan, seed

    def gather(self, number: int, own_predictions: dict[str, Any]) -> Received:
        """What those who are here say."""
        if isinstance(self._plan, float):
            is_away = np.random.default_rng((self._seed, number)).random(len(self.roster)) < self._plan
        else:
            agents, first, last = self._plan
            is_away = [first <= number <= last and int(name) in agents for name in self.roster]
        away = {name for name, gone in zip(self.roster, is_away, strict=True) if gone}
        answer = self._within.gather(number, own_predictions)
        return replace(answer, predictions={name: f for name, f in answer.predictions.items() if name not in away})


def run(preset: str, changes: Changes, seed: int) -> dict[str, Any]:
    """The scores of one run."""
    rest = {key: value for key, value in changes.items() if key != "away"}
    settings, began = read_settings(preset, {"references": [], "seed": seed} | rest), time.process_time()
    scenario = build_scenario(settings)
    agents, exchange = build_agents(settings, scenario), build_exchange(settings, scenario)
    if "away" in changes:
        exchange = Away(exchange, changes["away"], seed)
    summary, evaluation = summarise(settings, scenario, agents), build_evaluation(settings, scenario)
    done = run_rounds(agents, shared_rows(settings, scenario), exchange, settings.method, summary, evaluation)
    good = {agent.name for agent in done.summary.agents if agent.good} - set(map(str, settings.data.attackers))
    scored = done.metrics[done.metrics["agent"].isin(good)].dropna(subset=["accuracy_target"])
    rounds = scored.groupby("round")["accuracy_target"]
    result: dict[str, Any] = {"rounds": sorted(map(int, rounds.groups)), "mean": [*rounds.mean()]}
    result["worst"] = [*rounds.min()]
    if "accuracy_shared" in scored:
        result["shared"] = [*scored.groupby("round")["accuracy_shared"].mean()]
    if len(done.trust):
        f = {agent.name: agent.predict(scenario.target_x) for agent in agents}
        together = collective(weights_of(done), f, agents[0].task).predictions
        result["collective"] = float((together.argmax(axis=1) == scenario.target_y).mean())
        w = done.trust[-10:].max(axis=0)  # who is away in the last round is not shut out
        judges = [index for index, name in enumerate(done.names) if name in good]
        result["out"] = [
            name for j, name in enumerate(done.names) if max((w[i, j] for i in judges if i != j), default=1) < 1e-9
        ]
        result["bytes"] = float(done.metrics["bytes_sent"].max() / (len(done.names) - 1))
    return result | {"cpu": round(time.process_time() - began, 1)}


def read(file: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    lines = map(json.loads, file.read_text().splitlines()) if file.exists() else []
    return {(line["section"], line["row"], line["seed"]): line for line in lines}


def line_of(runs: list[dict[str, Any]]) -> str:
    """One row of a table: scores after 10, 25 and all rounds, of every seed."""

    def at(key: str, result: dict[str, Any]) -> str:
        wanted = [t for t in (10, 25) if t in result["rounds"] and t < result["rounds"][-1]]
        values = [result[key][result["rounds"].index(t)] for t in wanted] + [result[key][-1]]
        return " / ".join(f"{value:.3f}".lstrip("0") for value in values)

    cells = [
        f"{at('mean', result)} (worst {result['worst'][-1]:.3f}, X* {result.get('shared', [0])[-1]:.3f})"
        for result in runs
    ]
    together = ", ".join(f"{result['collective']:.3f}" for result in runs if "collective" in result)
    out = "; ".join(" ".join(result.get("out", [])) or "nobody" for result in runs)
    kilobytes = f"{runs[0].get('bytes', 0) / 1000:.0f}"
    return " | ".join([*cells, f"together {together}", f"out: {out}", f"{kilobytes} kB"])


def main(folder: Path, section: str, seeds: str = "", words: str = "") -> None:
    file = folder / "runs.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    if section == "table":
        known = read(file)
        for name, rows in SECTIONS.items():
            for row in rows if seeds in ("", name) else ():
                runs = [result for key, result in sorted(known.items()) if key[:2] == (name, row)]
                if runs:
                    print(f"| {name}: {row} | seeds {', '.join(str(r['seed']) for r in runs)} | {line_of(runs)} |")
        return
    for seed in parse_seeds(seeds):
        for row, (preset, changes) in SECTIONS[section].items():
            if words in row and (section, row, seed) not in read(file):
                result = {"section": section, "row": row, "seed": seed} | run(preset, changes, seed)
                with file.open("a") as lines:
                    lines.write(json.dumps(result) + "\n")
                print(row, seed, line_of([result]), f"cpu {result['cpu']} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
