"""Trust and pseudo-labels: time over the bare matrix products, and peak memory."""

import tracemalloc

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.timing import interleaved, table, verdict
from consilience.core.labels import pseudo_labels
from consilience.core.trust import entropy_trust

SIZES = [(10, 3000, 10), (100, 3000, 10), (1000, 3000, 10), (10, 1000, 100), (100, 1000, 100), (1000, 1000, 100)]


def run() -> str:
    """The section on trust."""
    rows = []
    with threadpool_limits(1):
        for agents, samples, classes in SIZES:
            rows.append(_measured(agents, samples, classes))
    head = [
        "agents x samples x classes",
        "trust + pseudo-labels",
        "bare products",
        "ratio",
        "peak memory",
        "goal reached",
    ]
    return (
        "## Trust and pseudo-labels\n\n"
        "`entropy_trust` and `pseudo_labels` against the bare products G F^T and W F of arrays of the same size, one "
        "thread. Peak memory counts the predictions, in whose place the pseudo-labels come, and everything between, in "
        "multiples of the predictions. In a run the predictions that were sent are kept as well, which is one more. "
        "The goals for 1000 agents are 1.5 times the products, and 2.0 times the memory.\n\n" + table(head, rows)
    )


def _measured(agents: int, samples: int, classes: int) -> list[object]:
    torch.manual_seed(0)
    f = torch.softmax(torch.randn(agents, samples, classes), dim=2).numpy()
    flat = f.reshape(agents, -1)
    other = flat.copy()  # NumPy halves the work of a product with itself, but trust is not symmetric
    w, mixed = entropy_trust(f), np.empty_like(f)
    weights = w.astype(np.float32)
    seconds = interleaved(
        {
            "ours": lambda: pseudo_labels(entropy_trust(f), f, out=mixed),
            "bare": lambda: (flat @ other.T, weights @ flat),
        },
        repeats=2 if agents == 1000 else 5,
    )
    tracemalloc.start()
    pseudo_labels(entropy_trust(f), f, out=f)
    memory = 1 + tracemalloc.get_traced_memory()[1] / f.nbytes
    tracemalloc.stop()
    ratio = seconds["ours"] / seconds["bare"]
    return [
        f"{agents} x {samples} x {classes}",
        f"{seconds['ours'] * 1e3:.1f} ms",
        f"{seconds['bare'] * 1e3:.1f} ms",
        f"{ratio:.2f}",
        f"{memory:.2f}",
        f"time {verdict(ratio <= 1.5)}, memory {verdict(memory <= 2.0)}" if agents == 1000 else "-",
    ]
