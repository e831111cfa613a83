"""Runs what research/home.md reports, and prints its tables from the runs that are finished.

python research/home.py run FOLDER 20-29 [SETTING ...]      # goes on where it was stopped; needs CONSILIENCE_DATA
python research/home.py table FOLDER
python research/home.py forecast FOLDER ...
python research/home.py time digits-mlp 0-2                 # CPU time with and without what the home model needs
"""

import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from consilience import load_run
from consilience.experiments.axes import parse_seeds
from consilience.experiments.run import run_experiment
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


def cost(setting: str, seeds: list[int]) -> None:
    """CPU seconds of a run with its copies that train alone, without and with what the home model needs, in turns."""
    preset, changes = SETTINGS[setting]
    ratios = []
    for seed in [seeds[0], *seeds]:  # the first is a warm-up
        settings = read_settings(preset, changes | {"run.seed": seed})
        scenario = build_scenario(settings)
        seconds = []
        for hold_out in (False, True):
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


def forecast(runs: list[Run]) -> None:
    """Does an agent's disagreement with the mean of all before the first exchange tell its gain?"""
    print(f"\nForecast from {len(runs)} runs: disagreement before the first exchange against the gain")
    for place in ("own", "target"):
        correlations, pairs = [], []
        for run in runs:
            first = run.metrics[run.metrics["round"] == max(1, run.summary.warmup)].set_index("agent")["disagreement"]
            gains = {name: gain.gain for name, gain in domain_gains(run, place).items()}
            known = [(first[name], gain) for name, gain in gains.items()]
            pairs.append(known)
            if len(known) > 3 and len({gain for _, gain in known}) > 1:
                correlations.append(spearmanr(*zip(*known, strict=True))[0])
        train = np.array([pair for known in pairs[::2] for pair in known])
        test = np.array([pair for known in pairs[1::2] for pair in known])
        bounds = np.unique(train[:, 0])
        right = [np.mean((train[:, 0] > bound) == (train[:, 1] > 0)) for bound in bounds]
        bound = bounds[int(np.argmax(right))]
        sign, base = np.mean((test[:, 0] > bound) == (test[:, 1] > 0)), np.mean(test[:, 1] > 0)
        print(
            f"- {place}: rank correlation within a run {np.nanmean(correlations):+.2f}; the sign is right for "
            f"{sign:.0%} of agents, always saying 'gain' is right for {base:.0%}"
        )


def _done(path: Path) -> bool:
    return is_finished(path) and is_finished(path / "alone")


if __name__ == "__main__":
    what, root, *rest = sys.argv[1:]
    if what == "run":
        run_all(Path(root), parse_seeds(rest[0]), rest[1:])
    elif what == "time":
        cost(root, parse_seeds(rest[0]))
    elif what == "forecast":
        paths = sorted(path for folder in (root, *rest) for path in Path(folder).glob("*/seed-*") if _done(path))
        forecast([load_run(path) for path in paths])
    else:
        table(Path(root))
