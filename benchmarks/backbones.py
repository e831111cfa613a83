"""Pretrained backbones: features against bare forward passes, and a run of ten heads on crossed rows."""

import os
import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import over, ranged, table, turns
from consilience.agents.backbones.backbone import Backbone
from consilience.agents.backbones.encoders import IMAGES as TOGETHER
from consilience.base.errors import ConsilienceError
from consilience.settings.presets import read_settings
from consilience.workers.work import work

IMAGES = 20 * TOGETHER


def run() -> str:
    """The section on backbones."""
    return f"## Pretrained backbones\n\n{_features()}\n{_heads()}"


def _features() -> str:
    """Raw images to features with an empty cache, and forward passes of as many ready tensors."""
    backbone = Backbone("efficientnet-lite0")
    network = backbone.encoder.module
    ready = torch.randn(TOGETHER, 3, 96, 96).contiguous(memory_format=torch.channels_last)
    draw = np.random.default_rng(0)
    torch.set_num_threads(1)

    def forward() -> None:
        with torch.inference_mode():
            for _ in range(IMAGES // TOGETHER):
                network.extract_features(ready)  # type: ignore[operator]

    def features() -> None:  # of images that were never seen
        backbone(draw.integers(0, 256, (IMAGES, 3, 96, 96), dtype=np.uint8))

    before = os.environ.get("CONSILIENCE_CACHE")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CONSILIENCE_CACHE"] = cache
        own, bare = turns({"features": features, "forward": forward}).values()
    del os.environ["CONSILIENCE_CACHE"]
    os.environ |= {} if before is None else {"CONSILIENCE_CACHE": before}
    each = [ranged([IMAGES / seconds for seconds in taken]) for taken in (own, bare)]
    return (
        f"Features of {IMAGES} images of 96x96 bytes by EfficientNet-Lite0, with fingerprints, scaling and the file "
        "that keeps them, beside bare forward passes of ready tensors; images in a second of CPU time, of all cores "
        "for the features.\n\n"
        + table(["rows", "features", "forward passes", "times the CPU"], [["images", *each, ranged(over(own, bare))]])
    )


def _heads() -> str:
    """A run of the preset without its reference, features known, and the bare algebra of as many steps."""
    settings = read_settings("cifar10-pretrained", {"references": []})
    with tempfile.TemporaryDirectory() as folder:
        try:
            work(settings, Path(folder) / "first")  # computes the features
        except ConsilienceError as error:
            return f"The preset cifar10-pretrained cannot be measured here: {error}\n"
        numbers = iter(range(10))
        own, bare = turns(
            {
                "run": lambda: work(settings, Path(folder) / str(next(numbers))),
                "algebra": lambda: _algebra(settings.agents.count, settings.run.rounds),
            }
        ).values()
    rows = [["`run cifar10-pretrained`", ranged(own, unit="s"), ranged(bare, unit="s"), ranged(over(own, bare))]]
    return (
        "The preset cifar10-pretrained: ten heads, 300 shared and 3,000 crossed rows, "
        f"{settings.run.rounds} rounds with scores and checkpoints, features from the cache, one process; CPU time. "
        "The algebra alone are its products and factorisations with random numbers.\n\n"
        + table(["command", "the run", "the algebra alone", "ratio"], rows)
    )


def _algebra(agents: int, rounds: int, own: int = 475, shared: int = 3300, features: int = 1281) -> None:
    """What the exact steps have to compute: one factorisation, and products for every agent and round."""
    draw = torch.Generator().manual_seed(0)
    s, x = (torch.randn(rows, features, generator=draw, dtype=torch.float64) for rows in (shared, own))
    w = torch.randn(features, 10, generator=draw, dtype=torch.float64)
    factor = torch.linalg.cholesky(s.T @ s + torch.eye(features, dtype=torch.float64))
    for _ in range(agents):
        inner = x @ torch.cholesky_solve(x.T.contiguous(), factor)
        torch.linalg.cholesky(inner + torch.eye(own, dtype=torch.float64))
        for _ in range(rounds):
            gradient = x.T @ (x @ w) + s.T @ (s @ w)
            for _ in range(2):
                gradient = torch.cholesky_solve(gradient, factor)
