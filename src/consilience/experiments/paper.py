"""The paper's experiments as settings, at three scales; every method gets the same data, splits, models and seeds.

The models have batch norm. In the warm-up they see private data only (`warmup_shared` is off at every scale): the paper
says that agents "perform local training for 5 global rounds". The authors' code passes the shared data as well.
"""

from dataclasses import replace
from pathlib import Path

from consilience.errors import ConsilienceError
from consilience.experiments.jobs import Job
from consilience.experiments.settings import Settings

SCALES = {
    "smoke": "seconds: a few real images, two rounds; shows that everything runs",
    "cpu": "minutes: a fixed subset and a small convolutional network in place of ResNet20 and EfficientNet",
    "paper": "days on a CPU: the full protocol of the paper",
}
METHODS = ("fedavg", "fedprox", "scaffold", "feddyn", "alone", "naive", "static", "dynamic")
CONSENSUS = ("alone", "naive", "static", "dynamic")
DATASETS = ("cifar10", "cifar100", "fed-isic2019")

PRINTED = {
    ("cifar10", "regular"): (0.542, 0.517, 0.578, 0.578, 0.475, 0.618, 0.604, 0.612),
    ("cifar100", "regular"): (0.261, 0.240, 0.317, 0.310, 0.178, 0.311, 0.319, 0.308),
    ("fed-isic2019", "regular"): (0.279, 0.261, 0.213, 0.243, 0.248, 0.290, 0.302, 0.291),
    ("cifar10", "low-quality"): (0.541, 0.530, 0.570, 0.575, 0.470, 0.596, 0.605, 0.608),
    ("cifar100", "low-quality"): (0.254, 0.240, 0.289, 0.308, 0.171, 0.285, 0.300, 0.306),
    ("fed-isic2019", "low-quality"): (0.229, 0.242, 0.221, 0.243, 0.217, 0.247, 0.249, 0.269),
}
"""Table 1 as printed, in the order of METHODS."""


def settings_for(dataset: str, variant: str, scale: str, seed: int = 0) -> Settings:
    """The settings of one experiment. Variants: regular, low-quality, two-models, epochs-K, lam-X."""
    if scale not in SCALES:
        raise ConsilienceError(f"unknown scale {scale!r}. Known: {', '.join(SCALES)}.")
    chosen = _isic(scale) if dataset == "fed-isic2019" else _cifar(dataset, scale)
    chosen = replace(chosen, seed=seed, references=())
    kind, _, value = variant.partition("-")
    if variant == "regular":
        return chosen
    if variant == "low-quality":
        return replace(chosen, low_quality=(1, 2) if dataset == "fed-isic2019" else (2, 9))
    if variant == "two-models":
        half = chosen.agents // 2
        return replace(chosen, models=chosen.models * half + ("linear",) * (chosen.agents - half))
    if kind == "epochs":
        return replace(chosen, epochs=int(value))
    if kind == "lam":
        return replace(chosen, lam=float(value))
    raise ConsilienceError(f"unknown variant {variant!r}.")


def job(dataset: str, variant: str, method: str, scale: str, seed: int, folder: Path) -> Job:
    """One run of the reproduction; artefacts that need the same run share its folder."""
    settings = settings_for(dataset, variant, scale, seed)
    if settings == settings_for(dataset, "regular", scale, seed):
        variant = "regular"
    return Job(settings, method, folder / f"{dataset}-{variant}" / f"seed-{seed}" / method)


def _cifar(dataset: str, scale: str) -> Settings:
    """Ten agents, Dirichlet(1), 3000 shared images balanced by class, 5 % of the whole."""
    full = Settings(
        dataset=dataset,
        models=("resnet20",),
        target_fraction=0.05,
        shared_per_agent=300,
        shared_balanced=True,
        rounds=50,
    )
    if scale == "paper":
        return full
    if scale == "cpu":
        limit = 1000 if dataset == "cifar10" else 100
        return replace(full, models=("convnet",), limit=limit, rounds=12, warmup=3, epochs=3)
    limit = 60 if dataset == "cifar10" else 8
    return replace(
        full, models=("convnet",), limit=limit, target_fraction=0.1, shared_per_agent=10, rounds=2, warmup=1, epochs=1
    )


def _isic(scale: str) -> Settings:
    """Six hospitals as they are, 50 shared images from each, balanced accuracy."""
    full = Settings(
        dataset="fed-isic2019",
        agents=6,
        models=("efficientnet",),
        partition="natural",
        target_fraction=0.05,
        shared_per_agent=50,
        side=64,
        rounds=20,
    )
    if scale == "paper":
        return full
    if scale == "cpu":
        return replace(full, models=("convnet",), side=32, limit=300, rounds=12, warmup=3, epochs=3)
    return replace(full, models=("convnet",), side=32, limit=80, shared_per_agent=10, rounds=2, warmup=1, epochs=1)
