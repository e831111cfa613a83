"""Trust and pseudo-labels: time over the bare matrix products, peak memory, and what strata cost."""

import tracemalloc

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.timing import interleaved, table, verdict
from consilience.core.labels import pseudo_labels
from consilience.core.trust import entropy_trust
from consilience.methods.trust.entropy import Entropy
from consilience.methods.trust.protocol import Context
from consilience.methods.trust.stratified import Stratified
from consilience.tasks import task_named

STRATIFIED_SIZES = [(10, 3000, 10), (100, 1000, 100), (4, 300, 2), (10, 300, 100)]
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
        "The goals for 1000 agents are 1.5 times the products, and 2.0 times the memory.\n\n"
        + table(head, rows)
        + _strata()
    )


def _strata() -> str:
    """Stratified trust beside the paper's, both with pseudo-labels of all agents."""
    rows = []
    with threadpool_limits(1):
        for agents, samples, classes in STRATIFIED_SIZES:
            rows.append(_stratified(agents, samples, classes))
    head = ["agents x samples x classes", "paper", "stratified", "ratio", "over entropy", "peak memory", "goal reached"]
    return (
        "\n### Trust per stratum\n\n"
        "The default rule against the paper's trust and pseudo-labels, one thread, and the same over the paper's trust "
        "as its base; predictions as of agents that agree on most samples. Peak memory beside the predictions, in "
        "multiples of these; the pseudo-labels of all agents are one of them. The goal is 3 times the paper's time for "
        "the first two sizes.\n\n" + table(head, rows)
    )


def _stratified(agents: int, samples: int, classes: int) -> list[object]:
    draw = np.random.default_rng(0)
    truth = np.eye(classes)[draw.integers(0, classes, samples)]
    f = (0.5 * truth + 0.5 * draw.dirichlet(np.ones(classes), (agents, samples))).astype(np.float32)
    names = tuple(map(str, range(agents)))
    context = Context(task_named("classification"), names, np.arange(agents), np.ones(agents), 1)
    mixed, plain, over = np.empty_like(f), Stratified(), Stratified(base=Entropy())
    seconds = interleaved(
        {
            "paper": lambda: pseudo_labels(entropy_trust(f), f, out=mixed),
            "stratified": lambda: plain(f, context),
            "over": lambda: over(f, context),
        },
        repeats=9,
    )
    tracemalloc.start()
    plain(f, context)
    memory = tracemalloc.get_traced_memory()[1] / f.nbytes
    tracemalloc.stop()
    ratio = seconds["stratified"] / seconds["paper"]
    return [
        f"{agents} x {samples} x {classes}",
        f"{seconds['paper'] * 1e3:.1f} ms",
        f"{seconds['stratified'] * 1e3:.1f} ms",
        f"{ratio:.2f}",
        f"{seconds['over'] / seconds['paper']:.2f}",
        f"{memory:.2f}",
        verdict(ratio <= 3) if (agents, samples, classes) in STRATIFIED_SIZES[:2] else "-",
    ]


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
