"""Growth: what a round costs against the number of agents, shared samples, classes and the size of the models."""

from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.timing import exponent, interleaved, table
from consilience.agents import networks
from consilience.agents.batched import train_all
from consilience.agents.torch_agent import TorchAgent
from consilience.core.labels import pseudo_labels
from consilience.core.trust import entropy_trust
from consilience.paper.figures import blank, save, style

FIGURE = Path("docs") / "benchmarks" / "growth"
USUAL = {"agents": 10, "shared": 300, "classes": 10, "hidden": 64}
RANGES = {
    "agents": (2, 4, 8, 16, 32, 64, 128, 256),
    "shared": (100, 300, 1000, 3000, 10_000, 30_000),
    "classes": (2, 5, 10, 30, 100, 300),
    "hidden": (8, 32, 128, 512, 2048, 8192),
}
TITLES = {"agents": "agents", "shared": "shared samples", "classes": "classes", "hidden": "parameters of a model"}
PARTS = {"training": ("#0072B2", "o"), "prediction": ("#E69F00", "s"), "trust and pseudo-labels": ("#009E73", "^")}


def run() -> str:
    """The section on growth; draws its figure."""
    torch.set_num_threads(1)
    measured = {}
    with threadpool_limits(1):
        for what, values in RANGES.items():
            measured[what] = [_round(USUAL | {what: value}) for value in values]
    sizes = {what: list(values) for what, values in RANGES.items()}
    sizes["hidden"] = [parameters for _, parameters in measured["hidden"]]
    _draw(sizes, measured)
    rows = []
    for part in PARTS:
        powers = [exponent(sizes[what], [seconds[part] for seconds, _ in measured[what]]) for what in RANGES]
        rows.append([part, *(f"{power:.2f}" for power in powers)])
    usual = ", ".join(f"{value} {name}" for name, value in USUAL.items() if name != "hidden")
    return (
        f"## Growth\n\nParts of a round with {usual} and networks with {USUAL['hidden']} hidden units on 64 features, "
        "80 private samples each, when one of these grows. The exponent p of cost ~ size^p is fitted to the upper half "
        "of each range.\n\n![Growth](benchmarks/growth.png)\n\n" + table(["exponent in", *TITLES.values()], rows)
    )


def _round(size: dict[str, int]) -> tuple[dict[str, float], int]:
    """Seconds of each part of a round, and the number of parameters of a model."""
    draw = np.random.default_rng(0)
    shared = draw.normal(size=(size["shared"], 64)).astype(np.float32)
    agents = []
    for number in range(size["agents"]):
        x, y = draw.normal(size=(80, 64)).astype(np.float32), draw.integers(0, size["classes"], 80)
        agents.append(TorchAgent(networks.mlp((64,), size["classes"], size["hidden"]), x, y, str(number)))
    f = np.stack([agent.predict(shared) for agent in agents])
    labels = {agent.name: f[0] for agent in agents}
    seconds = interleaved(
        {
            "training": lambda: train_all(agents, shared, labels, 0.5),
            "prediction": lambda: [agent.predict(shared) for agent in agents],
            "trust and pseudo-labels": lambda: pseudo_labels(entropy_trust(f), f),
        },
        repeats=3,
    )
    return seconds, agents[0].parameters or 0


def _draw(sizes: dict[str, list[int]], measured: dict[str, list[tuple[dict[str, float], int]]]) -> None:
    with style():
        figure = blank(7.2, 5.4)
        panels = figure.subplots(2, 2, sharey=True).flat
        for axes, (what, title) in zip(panels, TITLES.items(), strict=True):
            for part, (colour, marker) in PARTS.items():
                seconds = [taken[part] for taken, _ in measured[what]]
                power = exponent(sizes[what], seconds)
                axes.loglog(
                    sizes[what], seconds, color=colour, marker=marker, markersize=4, label=f"{part}: p = {power:.2f}"
                )
            axes.set_xlabel(title)
            axes.grid(True)
            axes.legend(loc="upper left")
        for axes in figure.axes[::2]:
            axes.set_ylabel("seconds a round")
        low, high = figure.axes[0].get_ylim()
        figure.axes[0].set_ylim(low, high * 20)
        save(figure, FIGURE)
