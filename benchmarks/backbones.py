"""Pretrained backbones: features against bare forward passes, and a run of ten heads on crossed rows."""

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import table, verdict
from consilience.agents.backbones.backbone import BATCH, Backbone
from consilience.settings.presets import read_settings
from consilience.workers.work import work

IMAGES = int(os.environ.get("BENCHMARK_IMAGES", "10000"))
"""Images whose features are computed."""


def run() -> str:
    """The section on backbones."""
    return f"## Pretrained backbones\n\n{_features()}\n{_heads()}"


def _features() -> str:
    """Seconds of raw images to features with an empty cache, and of forward passes of as many ready tensors."""
    backbone = Backbone("efficientnet-lite0")
    network = backbone.encoder.module
    x = np.random.default_rng(0).integers(0, 256, (IMAGES, 3, 96, 96), dtype=np.uint8)
    ready = torch.randn(BATCH, 3, 96, 96).contiguous(memory_format=torch.channels_last)
    cores, torch_threads = len(os.sched_getaffinity(0)), torch.get_num_threads()

    def forward(_: int) -> None:
        with torch.inference_mode():
            network.extract_features(ready)  # type: ignore[operator]

    def bare(batches: int) -> float:
        torch.set_num_threads(1)
        began = time.perf_counter()
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(forward, range(batches)))
        torch.set_num_threads(torch_threads)
        return time.perf_counter() - began

    bare(2)
    seconds = {"features": 0.0, "forward": 0.0}
    part = 10 * BATCH
    with tempfile.TemporaryDirectory() as cache:
        os.environ["CONSILIENCE_CACHE"] = cache
        for start in range(0, IMAGES, part):  # they take turns
            rows = x[start : start + part]
            began = time.perf_counter()
            backbone(rows)
            seconds["features"] += time.perf_counter() - began
            seconds["forward"] += bare(-(-len(rows) // BATCH))
        del os.environ["CONSILIENCE_CACHE"]
    ratio = seconds["features"] / seconds["forward"]
    rows = [[f"{IMAGES} images", *(f"{s:.1f} s" for s in seconds.values()), f"{ratio:.2f}", verdict(ratio <= 1.2)]]
    return (
        f"Features of {IMAGES} images of 96x96 bytes by EfficientNet-Lite0 on {cores} cores, with fingerprints, "
        "scaling and the file that keeps them, against bare forward passes of ready tensors, batch by batch on "
        "the same cores. The goal is 1.2 times.\n\n"
        + table(["what", "features", "forward passes", "ratio", "goal reached"], rows)
    )


def _heads() -> str:
    """Seconds of the preset cifar10-pretrained without its reference, features known, and of what it is spent on."""
    settings = read_settings("cifar10-pretrained", {"references": []})
    with tempfile.TemporaryDirectory() as folder:
        work(settings, Path(folder) / "first")  # computes the features
        began, spent = time.perf_counter(), time.process_time()
        work(settings, Path(folder) / "second")
        seconds, spent = time.perf_counter() - began, time.process_time() - spent
    algebra = _algebra(settings.agents.count, settings.run.rounds)
    rows = [["ten heads", f"{seconds:.1f} s", f"{spent:.1f} s", f"{algebra:.1f} s", verdict(seconds <= 30)]]
    return (
        f"The preset cifar10-pretrained: ten heads, X* 300 and 3,000 crossed rows, {settings.run.rounds} rounds with "
        "evaluation, features from the cache, one process. The linear algebra alone are its matrix products and "
        "factorisations with random numbers. The goal is 30 seconds.\n\n"
        + table(["run", "time", "of processor", "linear algebra alone", "goal reached"], rows)
    )


def _algebra(agents: int, rounds: int, own: int = 475, shared: int = 3300, features: int = 1281) -> float:
    """Seconds of what the exact steps have to compute: one factorisation, and products for every agent and round."""
    draw = torch.Generator().manual_seed(0)
    s, x = (torch.randn(rows, features, generator=draw, dtype=torch.float64) for rows in (shared, own))
    w = torch.randn(features, 10, generator=draw, dtype=torch.float64)
    torch.set_num_threads(1)
    began = time.perf_counter()
    factor = torch.linalg.cholesky(s.T @ s + torch.eye(features, dtype=torch.float64))
    for _ in range(agents):
        inner = x @ torch.cholesky_solve(x.T.contiguous(), factor)
        torch.linalg.cholesky(inner + torch.eye(own, dtype=torch.float64))
        for _ in range(rounds):
            gradient = x.T @ (x @ w) + s.T @ (s @ w)
            for _ in range(2):
                gradient = torch.cholesky_solve(gradient, factor)
    return time.perf_counter() - began
