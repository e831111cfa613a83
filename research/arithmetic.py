"""Share of bare arithmetic in a round of digits-mlp; CPU time of one thread. Runs with the PYTHONPATH of any checkout.

    OMP_NUM_THREADS=1 PYTHONPATH=src python research/arithmetic.py

Bare are the products, the cross-entropy and Adam of ten stacked networks 64-64-10, without rows that fill up, and
their predictions. A round has scores and a checkpoint.
"""

import json
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch

from consilience.runtime.callbacks import Finished
from consilience.settings.presets import read_settings
from consilience.workers.work import work

AGENTS, STEPS, PREDICTED = 10, 10, 680
ROWS = {"consensus": 193, "fedavg": 43, "scaffold": 43}
"""Samples of an agent in a step."""


def of_a_round(method: str) -> float:
    settings, marks = read_settings("digits-mlp", {"references": [], "rounds": 25}).with_method(method), []
    with tempfile.TemporaryDirectory() as folder:
        work(
            settings,
            Path(folder) / "run",
            lambda event: marks.append(time.process_time()) if isinstance(event, Finished) else None,
        )
    return float(median(np.diff(marks[6:-1])))


@torch.no_grad()
def bare(rows: int) -> float:
    shapes = [(AGENTS, 64, 64), (AGENTS, 1, 64), (AGENTS, 64, 10), (AGENTS, 1, 10)]
    w = [torch.randn(shape) for shape in shapes]
    first, second = ([torch.zeros(shape) for shape in shapes] for _ in range(2))
    x, y = torch.randn(AGENTS, rows, 64), torch.randn(AGENTS, rows, 10).softmax(2)
    seen, spent = torch.randn(PREDICTED, 64).expand(AGENTS, -1, -1), []
    for _ in range(30):
        began = time.process_time()
        for _ in range(STEPS):
            hidden = torch.baddbmm(w[1], x, w[0]).relu_()
            back = (torch.baddbmm(w[3], hidden, w[2]).softmax(2) - y) / rows
            below = torch.bmm(back, w[2].mT) * (hidden > 0)
            g = [torch.bmm(x.mT, below), below.sum(1, True), torch.bmm(hidden.mT, back), back.sum(1, True)]
            for weight, gradient, m, v in zip(w, g, first, second, strict=True):
                m.lerp_(gradient, 0.1)
                v.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                weight.sub_(m / v.sqrt().add_(1e-8), alpha=0.0005)
        torch.baddbmm(w[3], torch.baddbmm(w[1], seen, w[0]).relu_(), w[2]).softmax(2)
        spent.append(time.process_time() - began)
    return float(median(spent[5:]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, rows in ROWS.items():
        whole, part = of_a_round(name), bare(rows)
        print(json.dumps({"method": name, "round, ms": whole * 1e3, "bare, ms": part * 1e3, "share": part / whole}))
