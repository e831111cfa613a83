"""Small jobs."""

from pathlib import Path

from consilience.settings.presets import read_settings
from consilience.workers.job import Job

SMALL = read_settings(
    "digits", {"rounds": 2, "warmup": 1, "agents.count": 2, "models": ["linear"], "epochs": 1, "low_quality": []}
)


def methods_on_two_seeds(folder: Path) -> list[Job]:
    return [
        Job(SMALL.with_method(name).with_seed(seed), folder / f"{name}-{seed}")
        for seed in (3, 4)
        for name in ("naive", "alone", "fedmd")
    ]
