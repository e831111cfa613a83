"""A private step beside an ordinary one."""

import numpy as np
import torch

from benchmarks.timing import ms, over, ranged, table, turns
from consilience.agents.networks import cnn, convnet_gn
from consilience.agents.torch_agent import TorchAgent
from consilience.agents.training import Training
from consilience.privacy.options import Privacy

ROWS, STEPS = 640, 10
CASES = {"cnn, digits (8x8)": (cnn, (1, 8, 8)), "convnet-gn, colour images (32x32)": (convnet_gn, (3, 32, 32))}


def run() -> str:
    """The section on private training."""
    torch.set_num_threads(1)
    rows = []
    for name, (make, shape) in CASES.items():
        for what, shared in (("private and shared batch", True), ("private batch alone", False)):
            plain, private = _round(make, shape, None, shared), _round(make, shape, Privacy(epsilon=8), shared)
            ordinary, own = turns({"plain": plain, "private": private}, 3).values()
            steps = [ms([seconds / STEPS for seconds in taken]) for taken in (ordinary, own)]
            rows.append([f"{name}, {what}", *steps, ranged(over(own, ordinary))])
    return (
        "## Private training\n\n"
        "A step of DP-SGD (64 private rows, of which each has a gradient of its own, and 256 shared rows) beside the "
        "ordinary step of the same network; CPU time of one thread.\n\n"
        + table(["network", "ordinary step", "private step", "ratio"], rows)
    )


def _round(make, shape, privacy, shared):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(ROWS, *shape)).astype(np.float32), draw.integers(0, 10, ROWS)
    star = draw.normal(size=(2560, *shape)).astype(np.float32)
    labels = np.full((len(star), 10), 0.1, np.float32) if shared else None
    agent = TorchAgent(make(shape, 10), x, y, "a", training=Training(epochs=1, batched=False), privacy=privacy)
    if agent.mechanism is not None:
        agent.mechanism.plan(100)
    return lambda: agent.train(star, labels, 0.5 if shared else 0.0)
