"""Runs what research/home.md reports, and prints its tables from the runs that are finished.

python research/home.py run FOLDER 20-29 [SETTING ...]      # goes on where it was stopped; needs CONSILIENCE_DATA
python research/home.py table FOLDER
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from consilience import load_run
from consilience.experiments.axes import parse_seeds
from consilience.experiments.run import run_experiment
from consilience.report.home import domain_gains
from consilience.runtime.held_out import models_of
from consilience.runtime.run import Run, is_finished
from consilience.settings.presets import read_settings

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


def of_agents(run: Run, place: str) -> list[dict[str, float]]:
    """Scores of each agent with good labels: accuracy, log loss and calibration error by model."""
    scores, rows = {score.name: score for score in run.summary.scores}, []
    for agent in run.summary.agents:
        if not agent.good or agent.name not in run.held:
            continue
        together, alone = run.held[agent.name], run.references["alone"].held[agent.name]
        models = models_of(run.calibrations[agent.name], together, alone, place)
        y = together[f"{place}_y"]
        row = {
            f"{model} {name}": scores[name].measure(models[model], y)
            for model in MODELS
            for name in ("accuracy", "log_loss", "calibration_error")
        }
        row["samples"] = len(y)
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
        print("| setting | seeds | accuracy | worse than alone by 2 points, together / home | log loss | calibration |")
        print("|---|---:|---:|---:|---:|---:|")
        for setting, runs in finished.items():
            rows = [row for run in runs for row in of_agents(run, place)]
            if rows:
                cells = [
                    " / ".join(f"{np.mean([row[f'{m} {name}'] for row in rows]):.3f}" for m in MODELS)
                    for name in ("accuracy", "log_loss", "calibration_error")
                ]
                worse = [
                    np.mean([row[f"{m} accuracy"] < row["alone accuracy"] - 0.02 for row in rows]) for m in MODELS[1:]
                ]
                lost = f"{worse[0]:.0%} / {worse[1]:.0%} of {len(rows)}"
                print(f"| {setting} | {len(runs)} | {cells[0]} | {lost} | {cells[1]} | {cells[2]} |")
    print("\n| setting | share of own test rows in 90 % sets | rows |\n|---|---:|---:|")
    for setting, runs in finished.items():
        known = [row for run in runs for row in of_agents(run, "own") if "covered" in row]
        if known:
            rows = sum(row["samples"] for row in known)
            print(f"| {setting} | {sum(row['covered'] for row in known) / rows:.3f} | {rows:.0f} |")
    forecast([run for runs in finished.values() for run in runs])


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
    else:
        table(Path(root))
