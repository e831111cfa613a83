"""Runs what research/home.md reports, and prints its tables from the runs that are finished.

python research/home.py run FOLDER 20-29 [SETTING ...]      # goes on where it was stopped; needs CONSILIENCE_DATA
python research/home.py table FOLDER
python research/home.py losers FOLDER                       # who is worse than alone at home by two points
python research/home.py kept FOLDER                         # what rows kept back cost on the target domain
python research/home.py forecast FOLDER 0-9 PRESET ...      # runs; without seeds and presets: what they say
python research/home.py hear digits-mlp 0-2                 # calibrating what peers hear
python research/home.py time digits-mlp 0-2                 # CPU time with and without what the home model needs
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from consilience import load_run
from consilience.agents.local_agents import LocalAgents
from consilience.agents.protocol import Agent
from consilience.base.rows import Rows, count, take
from consilience.core.calibration import log_term, pool, pool_weights
from consilience.experiments.axes import parse_seeds
from consilience.experiments.compare import estimate
from consilience.experiments.run import run_experiment
from consilience.methods.learning.joint import Joint
from consilience.report.home import domain_gains
from consilience.runtime.driver import run_rounds
from consilience.runtime.held_out import models_of
from consilience.runtime.run import Run, is_finished
from consilience.settings.presets import read_settings
from consilience.settings.wiring import (
    build_agents,
    build_evaluation,
    build_exchange,
    build_scenario,
    shared_rows,
    summarise,
)
from consilience.tasks.protocol import Array, Task

FEATURES = {"data.limit": 300, "data.target_fraction": 0.2, "data.test_fraction": 0.2}
CIFAR = "cifar10-pretrained"
SETTINGS = {
    "digits": ("digits", {}),
    "digits-mlp": ("digits-mlp", {}),
    "breast-cancer": ("breast-cancer", {}),
    "hospitals": ("hospitals", {}),
    "CIFAR-10 features, Dirichlet 1": (CIFAR, FEATURES),
    "CIFAR-10 features, Dirichlet 0.3": (CIFAR, FEATURES | {"data.alpha": 0.3}),
    "CIFAR-10 features, Dirichlet 0.1": (CIFAR, FEATURES | {"data.alpha": 0.1}),
    "concept shift, Dirichlet 1": (CIFAR, FEATURES | {"data.concept_shift": [0, 1, 2]}),
    "concept shift, digits-mlp": ("digits-mlp", {"data.concept_shift": [0, 1, 2]}),
    "digits-mlp, Dirichlet 0.3": ("digits-mlp", {"data.alpha": 0.3}),
    "digits-mlp, a tenth kept back": ("digits-mlp", {"training.kept_back": 0.1}),
}
MODELS = ("alone", "together", "home")


def folder_of(root: Path, setting: str, seed: int) -> Path:
    return root / setting.replace(", ", "-").replace(" ", "-") / f"seed-{seed}"


def run_all(root: Path, seeds: list[int], chosen: list[str]) -> None:
    for seed in seeds:
        for setting, (preset, changes) in SETTINGS.items():
            folder = folder_of(root, setting, seed)
            if (not chosen or setting in chosen) and not is_finished(folder / "alone"):
                settings = read_settings(preset, changes | {"run.seed": seed, "run.references": ["alone"]})
                run_experiment(settings, folder, workers=1)
                print(setting, seed, flush=True)


def of_agents(run: Run, place: str, only: tuple[str, ...] = ()) -> list[dict[str, float]]:
    """Scores of each agent with good labels: accuracy, log loss and calibration error by model."""
    scores, rows = {score.name: score for score in run.summary.scores}, []
    verdicts = {name: gain.verdict for name, gain in domain_gains(run, place).items()}
    for agent in run.summary.agents:
        if not agent.good or agent.name not in run.held or (only and agent.name not in only):
            continue
        together, alone = run.held[agent.name], run.references["alone"].held[agent.name]
        models = models_of(run.calibrations[agent.name], together, alone, place)
        y = together[f"{place}_y"]
        row = {
            f"{model} {name}": scores[name].measure(models[model], y)
            for model in MODELS
            for name in ("accuracy", "log_loss", "calibration_error")
        }
        row |= {"samples": len(y), "worse": verdicts[agent.name] == "worse"}
        calibration = run.calibrations[agent.name]
        if len(calibration.scores.get("home", ())) >= 20 and place == "own":
            row["covered"] = calibration.sets(models["home"], "home", 0.9)[np.arange(len(y)), y].sum()
        rows.append(row)
    return rows


def table(root: Path) -> None:
    finished = {
        setting: [load_run(path) for path in sorted(folder_of(root, setting, 0).parent.glob("seed-*")) if _done(path)]
        for setting in SETTINGS
    }
    places = {"own": "At home (own test rows)", "target": "On the target domain (home: calibrated)"}
    for place, title in places.items():
        print(f"\n{title}: alone / together / home\n")
        print("| setting | seeds | accuracy | 2 points below alone, together / home | shown | log loss | calibration |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        parts = [(setting, setting, ()) for setting in finished]
        parts += [(f"{setting}, those three", setting, ("0", "1", "2")) for setting in finished if "concept" in setting]
        for title, setting, only in parts:
            runs = finished[setting]
            rows = [row for run in runs for row in of_agents(run, place, only)]
            if rows:
                cells = [
                    " / ".join(f"{np.mean([row[f'{m} {name}'] for row in rows]):.3f}" for m in MODELS)
                    for name in ("accuracy", "log_loss", "calibration_error")
                ]
                worse = [
                    np.mean([row[f"{m} accuracy"] < row["alone accuracy"] - 0.02 for row in rows]) for m in MODELS[1:]
                ]
                lost = f"{worse[0]:.0%} / {worse[1]:.0%} of {len(rows)}"
                shown = f"{np.mean([row['worse'] for row in rows]):.0%}"
                print(f"| {title} | {len(runs)} | {cells[0]} | {lost} | {shown} | {cells[1]} | {cells[2]} |")
    print("\n| setting | share of own test rows in 90 % sets | rows |\n|---|---:|---:|")
    for setting, runs in finished.items():
        known = [row for run in runs for row in of_agents(run, "own") if "covered" in row]
        if known:
            rows = sum(row["samples"] for row in known)
            print(f"| {setting} | {sum(row['covered'] for row in known) / rows:.3f} | {rows:.0f} |")


def losers(root: Path) -> None:
    """Agents whose home model is worse than training alone at home by more than two points, in test rows."""
    for setting in SETTINGS:
        worse = []
        for path in sorted(folder_of(root, setting, 0).parent.glob("seed-*")):
            if _done(path):
                run, seed = load_run(path), path.name.removeprefix("seed-")
                gains = domain_gains(run, "own")
                for agent in run.summary.agents:
                    if agent.good and agent.name in gains and gains[agent.name].gain < -0.02:
                        rows = len(run.held[agent.name]["own_y"])
                        worse.append(f"{seed}/{agent.name} ({round(gains[agent.name].gain * rows)} of {rows})")
        print(f"- **{setting}** ({len(worse)}): {', '.join(worse) or 'none'}")


def kept_back_costs(root: Path) -> None:
    """What a tenth of the rows kept back costs on the target domain, paired by agent, with its 95 % interval."""
    for most in (10_000, 70):
        means = []
        for path in sorted(folder_of(root, "digits-mlp", 0).parent.glob("seed-*")):
            other = folder_of(root, "digits-mlp, a tenth kept back", 0).parent / path.name
            if _done(path) and _done(other):
                runs = [load_run(folder) for folder in (path, other)]
                few = [agent.name for agent in runs[0].summary.agents if agent.samples <= most]
                first, second = (run.last_round().set_index("agent")["accuracy_target"] for run in runs)
                means.append((second - first)[few].mean())
        print(f"agents with at most {most} rows: {estimate([m for m in means if m == m]).text(signed=True)}")


def cost(setting: str, seeds: list[int]) -> None:
    """CPU seconds of a run with its copies that train alone, without and with what the home model needs, in turns."""
    preset, changes = SETTINGS[setting]
    ratios = []
    for seed in [seeds[0], *seeds]:  # the first is a warm-up
        seconds = []
        for hold_out in (False, True):
            kept_back = {"training.kept_back": 0.15 * hold_out} if preset == CIFAR else {}
            settings = read_settings(preset, changes | kept_back | {"run.seed": seed})
            scenario = build_scenario(settings)
            agents = build_agents(settings, scenario)
            parts = build_exchange(settings, scenario), settings.method, summarise(settings, scenario, agents)
            began = time.process_time()
            run_rounds(
                agents,
                shared_rows(settings, scenario),
                *parts,
                build_evaluation(settings, scenario),
                baseline=True,
                hold_out=hold_out,
            )
            seconds.append(time.process_time() - began)
        ratios.append(seconds[1] / seconds[0])
        print(setting, seed, f"{seconds[0]:.2f} {seconds[1]:.2f} ratio {ratios[-1]:.2f}", flush=True)
    print(f"{setting}: CPU time {np.mean(ratios[1:]):.2f} ({min(ratios[1:]):.2f} to {max(ratios[1:]):.2f})")


class Watched(Joint):
    """Notes what agents know when they have heard trained peers for the first time, and what that round brings."""

    def __init__(self, shared: int, exchange: int) -> None:
        self.__dict__ |= {"shared": shared, "left": exchange, "noted": {}, "warmup_shared": False}

    def learn(self, agents, shared, psi, lam, private):
        self.__dict__["psi"] = {name: labels[: self.shared] for name, labels in psi.items()}
        self.__dict__["left"] -= 1
        if self.left:
            return super().learn(agents, shared, psi, lam, private)
        rows, before = take(shared, slice(0, self.shared)), {agent.name: _kept(agent) for agent in agents}
        expected = {
            agent.name: _expected(agent.task, agent.predict(rows), psi[agent.name][: self.shared]) for agent in agents
        }
        losses = super().learn(agents, shared, psi, lam, private)
        for agent in agents:
            name, after = agent.name, _kept(agent)
            gained = {f"{key} gained": after[key] - before[name][key] for key in after}
            self.noted[name] = before[name] | gained | {"expected": expected[name]}
        return losses


def tell_forecasts(root: Path) -> None:
    """How forecasts agree with gains: rank correlations within runs, and how often their sign is right."""
    import pandas as pd

    table = pd.read_json(root / "forecast.jsonl", lines=True)
    table = table[table["good"]].assign(run=table["preset"] + table["seed"].astype(str))
    runs = sorted(table["run"].unique())
    print(f"{len(runs)} runs, {len(table)} agents: {table.groupby('preset')['seed'].nunique().to_dict()}")
    for place, forecast in (("own", "score gained"), ("own", "log score gained"), ("target", "expected")):
        known = table.dropna(subset=[place, forecast])
        within = [
            spearmanr(rows[forecast], rows[place])[0]
            for _, rows in known.groupby("run")
            if len(rows) > 3 and rows[forecast].nunique() > 1 and rows[place].nunique() > 1
        ]
        train = known["run"].isin(runs[::2])
        bounds = np.unique(known[train][forecast])
        right = [((known[train][forecast] > bound) == (known[train][place] > 0)).mean() for bound in bounds]
        bound, test = bounds[int(np.argmax(right))], known[~train]
        classes = known[known["preset"] != "polynomial"]
        print(
            f"- {place}, {forecast}: rank correlation within a run {np.mean(within):+.2f} ({len(within)} runs), over "
            f"all agents {spearmanr(classes[forecast], classes[place])[0]:+.2f}; its sign is that of the gain for "
            f"{((known[forecast] > 0) == (known[place] > 0)).mean():.0%}, with a bound learned on every other run "
            f"{((test[forecast] > bound) == (test[place] > 0)).mean():.0%}, of 'gain' {(test[place] > 0).mean():.0%}"
        )


def _kept(agent: Agent) -> dict[str, float]:
    """Scores on the rows that the model has not seen, higher is better."""
    f, y = agent.held_out()
    if not len(y):
        return {"score": float("nan"), "log score": float("nan")}
    first, last = agent.task.scores[0], next((s for s in agent.task.scores if s.name == "log_loss"), None)
    signs = [(1 if score.higher_is_better else -1, score) for score in (first, last or first)]
    return {name: sign * score.measure(f, y) for name, (sign, score) in zip(("score", "log score"), signs, strict=True)}


def _expected(task: Task, f: np.ndarray, labels: np.ndarray) -> float:
    """The gain on the target domain if the pseudo-labels were the truth: of accuracy, or of the RMSE."""
    if not task.has_classes:
        return float(np.sqrt(np.mean((f - labels) ** 2)))
    return float(labels.max(axis=1).mean() - labels[np.arange(len(f)), f.argmax(axis=1)].mean())


def forecasts(root: Path, seeds: list[int], chosen: list[str]) -> None:
    """Runs presets with a share of private rows kept back, and writes a line of JSON for each agent of each."""
    path = root / "forecast.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    done = {(line["preset"], line["seed"]) for line in map(json.loads, lines)}
    for seed in seeds:
        for preset in chosen:
            if (preset, seed) in done:
                continue
            changes = {"run.seed": seed, "run.references": []}
            settings = read_settings(preset, changes | ({} if preset == "polynomial" else {"training.kept_back": 0.15}))
            scenario = build_scenario(settings)
            agents, method = build_agents(settings, scenario), settings.method
            watched = Watched(count(scenario.shared), 1 if method.warmup else 2)  # untrained models say nothing
            run = run_rounds(
                agents,
                shared_rows(settings, scenario),
                build_exchange(settings, scenario),
                replace(method, learning=watched),
                summarise(settings, scenario, agents),
                build_evaluation(settings, scenario),
                baseline=True,
                hold_out=True,
            )
            gains = {place: domain_gains(run, place) for place in ("own", "target")}
            with path.open("a") as file:
                for agent in run.summary.agents:
                    known = {place: gains[place][agent.name].gain for place in gains if agent.name in gains[place]}
                    row = {"preset": preset, "seed": seed, "agent": agent.name, "good": agent.good, **known}
                    file.write(json.dumps(row | watched.noted[agent.name]) + "\n")
            print(preset, seed, flush=True)


def what_peers_hear(setting: str, seeds: list[int]) -> None:
    """The same runs with predictions published as they are, and with a temperature fitted to the rows kept back.

    Prints the accuracy of the last pseudo-labels, of agents on the target domain and of home models, and the share of
    trust that agents with wrong labels are given by the others.
    """
    preset, changes = SETTINGS[setting]
    publish, wrong = LocalAgents.published, [2, 9]

    def calibrated(agents: LocalAgents, shared: Rows) -> dict[str, Array]:
        predictions = publish(agents, shared)
        for agent in agents:
            f, y = agent.held_out()
            weight = pool_weights(log_term(f)[None], y, np.ones(1), np.full(1, 5.0))
            predictions[agent.name] = pool(weight, log_term(predictions[agent.name])[None]).astype(np.float32)
        return predictions

    for seed in seeds:
        for name, function in (("as they are", publish), ("calibrated", calibrated)):
            more = {"run.seed": seed, "training.kept_back": 0.15, "low_quality": wrong, "run.references": []}
            settings = read_settings(preset, changes | more)
            scenario = build_scenario(settings)
            agents, watched = build_agents(settings, scenario), Watched(count(scenario.shared), settings.run.rounds)
            LocalAgents.published = function
            try:
                run = run_rounds(
                    agents,
                    shared_rows(settings, scenario),
                    build_exchange(settings, scenario),
                    replace(settings.method, learning=watched),
                    summarise(settings, scenario, agents),
                    build_evaluation(settings, scenario),
                    baseline=True,
                    hold_out=True,
                )
            finally:
                LocalAgents.published = publish
            last, good = run.last_round(), [i for i in range(len(run.names)) if i not in wrong]
            right = np.mean([(psi.argmax(axis=1) == scenario.shared_y).mean() for psi in watched.psi.values()])
            target = last[~last["low_quality"]]["accuracy_target"].mean()
            home = np.mean([gain.together for gain in domain_gains(run, "own").values()])
            trust = run.trust[-1][np.ix_(good, wrong)].sum() / run.trust[-1][good].sum()
            print(f"{setting} {seed} {name}: {right:.3f} {target:.3f} {home:.3f} {trust:.3f}", flush=True)


def _done(path: Path) -> bool:
    return is_finished(path) and is_finished(path / "alone")


if __name__ == "__main__":
    what, root, *rest = sys.argv[1:]
    if what == "run":
        run_all(Path(root), parse_seeds(rest[0]), rest[1:])
    elif what == "time":
        cost(root, parse_seeds(rest[0]))
    elif what == "losers":
        losers(Path(root))
    elif what == "kept":
        kept_back_costs(Path(root))
    elif what == "hear":
        what_peers_hear(root, parse_seeds(rest[0]))
    elif what == "forecast" and not rest:
        tell_forecasts(Path(root))
    elif what == "forecast":
        forecasts(Path(root), parse_seeds(rest[0]), rest[1:])
    else:
        table(Path(root))
