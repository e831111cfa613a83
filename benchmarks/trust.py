"""Trust and pseudo-labels: time over the bare matrix products, peak memory, and what strata cost."""

import tracemalloc

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.timing import ms, over, ranged, table, turns
from consilience.core.labels import pseudo_labels
from consilience.core.trust import entropy_trust
from consilience.methods.trust.protocol import Context
from consilience.methods.trust.stratified import Stratified
from consilience.tasks import task_named

STRATIFIED_SIZES = [(4, 300, 2), (10, 300, 100), (10, 3000, 10), (100, 1000, 100)]
SIZES = [(10, 3000, 10), (100, 3000, 10), (1000, 3000, 10), (10, 1000, 100), (100, 1000, 100)]


def run() -> str:
    """The section on trust."""
    with threadpool_limits(1):
        rows = [_measured(*size) for size in SIZES]
        stratified = [_stratified(*size) for size in STRATIFIED_SIZES]
    head = ["agents x samples x classes", "trust, pseudo-labels", "bare products", "ratio", "peak memory"]
    return (
        "## Trust and pseudo-labels\n\n"
        "`entropy_trust` and `pseudo_labels` against the products G F^T and W F of arrays of the same size; CPU time, "
        "one thread. Peak memory, with the predictions, is in multiples of these.\n\n"
        + table(head, rows)
        + "\nThe default rule, trust per stratum, against the paper's.\n\n"
        + table(["agents x samples x classes", "paper", "stratified", "ratio", "peak memory"], stratified)
    )


def _stratified(agents: int, samples: int, classes: int) -> list[object]:
    """Stratified trust beside the paper's, both with pseudo-labels of all agents."""
    draw = np.random.default_rng(0)
    truth = np.eye(classes)[draw.integers(0, classes, samples)]
    f = (0.5 * truth + 0.5 * draw.dirichlet(np.ones(classes), (agents, samples))).astype(np.float32)
    names = tuple(map(str, range(agents)))
    context = Context(task_named("classification"), names, np.arange(agents), np.ones(agents), 1)
    mixed, plain = np.empty_like(f), Stratified()
    seconds = turns(
        {
            "paper": lambda: pseudo_labels(entropy_trust(f), f, out=mixed),
            "stratified": lambda: plain(f, context),
        },
        5,
    )
    memory = _peak(lambda: plain(f, context)) / f.nbytes + 1
    paper, own = seconds.values()
    return [f"{agents} x {samples} x {classes}", ms(paper), ms(own), ranged(over(own, paper)), f"{memory:.2f}"]


def _measured(agents: int, samples: int, classes: int) -> list[object]:
    torch.manual_seed(0)
    f = torch.softmax(torch.randn(agents, samples, classes), dim=2).numpy()
    flat = f.reshape(agents, -1)
    other = flat.copy()  # NumPy halves the work of a product with itself, but trust is not symmetric
    w, mixed = entropy_trust(f), np.empty_like(f)
    weights = w.astype(np.float32)
    seconds = turns(
        {
            "ours": lambda: pseudo_labels(entropy_trust(f), f, out=mixed),
            "bare": lambda: (flat @ other.T, weights @ flat),
        },
        1 if agents == 1000 else 5,
    )
    memory = 1 + _peak(lambda: pseudo_labels(entropy_trust(f), f, out=f)) / f.nbytes
    ours, bare = seconds.values()
    return [f"{agents} x {samples} x {classes}", ms(ours), ms(bare), ranged(over(ours, bare)), f"{memory:.2f}"]


def _peak(thing) -> int:
    tracemalloc.start()
    thing()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most
