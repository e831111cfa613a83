"""The paper's experiments as settings, at four scales; every method gets the same data, splits, models and seeds.

The models have batch norm. In the warm-up they see private data only (`warmup_shared` is off at every scale): the paper
says that agents "perform local training for 5 global rounds". The authors' code passes the shared data as well.
"""

from pathlib import Path
from typing import Any

from consilience.base.errors import ConsilienceError
from consilience.settings.settings import Settings, changed
from consilience.workers.job import Job

SCALES = {
    "smoke": "seconds: a few real images, two rounds; shows that everything runs",
    "cpu": "minutes: a fixed subset and a small convolutional network in place of ResNet20 and EfficientNet",
    "long": "half an hour for a run: all images and the paper's schedule, with the small network",
    "paper": "days on a CPU: the full protocol of the paper",
}
METHODS = ("fedavg", "fedprox", "scaffold", "feddyn", "alone", "naive", "static", "paper")
SERVER = METHODS[:4]
CONSENSUS = ("alone", "naive", "static", "paper")
DATASETS = ("cifar10", "cifar100", "fed-isic2019")

CAVEATS = {
    "smoke": "At smoke scale the numbers and the verdicts mean nothing: two rounds on a few images show only that "
    "everything runs."
}
"""Warnings about the numbers at a scale."""


def check_scale(scale: str) -> None:
    """Raises an error if a scale is unknown."""
    if scale not in SCALES:
        raise ConsilienceError(f"unknown scale {scale!r}. Known: {', '.join(SCALES)}.")


def settings_for(dataset: str, variant: str, scale: str, seed: int = 0) -> Settings:
    """The settings of one experiment. Variants: regular, low-quality, two-models, epochs-K, lam-X."""
    check_scale(scale)
    chosen = _isic(scale) if dataset == "fed-isic2019" else _cifar(dataset, scale)
    chosen = changed(chosen, {"run.seed": seed, "run.references": []})
    kind, _, value = variant.partition("-")
    if variant == "regular":
        return chosen
    if variant == "low-quality":
        return changed(chosen, {"data.low_quality": [1, 2] if dataset == "fed-isic2019" else [2, 9]})
    if variant == "two-models":
        half, models = chosen.agents.count // 2, chosen.agents.models
        return changed(chosen, {"agents.models": [*models * half, *["linear"] * (chosen.agents.count - half)]})
    if kind == "epochs":
        return changed(chosen, {"training.epochs": int(value)})
    if kind == "lam":
        return changed(chosen, {"method.lam": float(value)})
    raise ConsilienceError(f"unknown variant {variant!r}.")


def job(dataset: str, variant: str, method: str, scale: str, seed: int, folder: Path) -> Job:
    """One run of the reproduction; artefacts that need the same run share its folder."""
    settings = settings_for(dataset, variant, scale, seed)
    if settings == settings_for(dataset, "regular", scale, seed):
        variant = "regular"
    folder_of_run = folder / f"{dataset}-{variant}" / f"seed-{seed}" / method
    return Job(settings.with_method(method), folder_of_run, method)


def experiment(job: Job) -> str:
    """The dataset and variant of a run, such as cifar10-regular."""
    return job.folder.parts[-3]


def _cifar(dataset: str, scale: str) -> Settings:
    """Ten agents, Dirichlet(1), 3000 shared images balanced by class, 5 % of the whole."""
    full: dict[str, Any] = {
        "data.dataset": dataset,
        "data.target_fraction": 0.05,
        "data.shared_per_agent": 300,
        "data.shared_balanced": True,
        "agents.models": ["resnet20"],
        "run.rounds": 50,
    }
    cpu: dict[str, Any] = {
        "agents.models": ["convnet"],
        "data.limit": 1000 if dataset == "cifar10" else 100,
        "run.rounds": 12,
        "method.warmup": 3,
        "training.epochs": 3,
    }
    smoke: dict[str, Any] = {
        "agents.models": ["convnet"],
        "data.limit": 60 if dataset == "cifar10" else 8,
        "data.target_fraction": 0.1,
        "data.shared_per_agent": 10,
        "run.rounds": 2,
        "method.warmup": 1,
        "training.epochs": 1,
    }
    long: dict[str, Any] = {"agents.models": ["convnet"], "run.rounds": 25}
    return changed(Settings(), full | {"paper": {}, "long": long, "cpu": cpu, "smoke": smoke}[scale])


def _isic(scale: str) -> Settings:
    """Six hospitals as they are, 50 shared images from each, balanced accuracy."""
    full: dict[str, Any] = {
        "data.dataset": "fed-isic2019",
        "data.partition": "natural",
        "data.target_fraction": 0.05,
        "data.shared_per_agent": 50,
        "data.side": 64,
        "agents.count": 6,
        "agents.models": ["efficientnet"],
        "run.rounds": 20,
    }
    small: dict[str, Any] = {"agents.models": ["convnet"], "data.side": 32}
    cpu = small | {"data.limit": 300, "run.rounds": 12, "method.warmup": 3, "training.epochs": 3}
    smoke = small | {
        "data.limit": 80,
        "data.shared_per_agent": 10,
        "run.rounds": 2,
        "method.warmup": 1,
        "training.epochs": 1,
    }
    return changed(Settings(), full | {"paper": {}, "long": small, "cpu": cpu, "smoke": smoke}[scale])
