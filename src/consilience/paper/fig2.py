"""Fig. 2: decision regions of small networks, one trained on wrong labels only."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.agents.protocol import Agent
from consilience.core.consensus import trust_received
from consilience.core.metrics import accuracy
from consilience.core.streams import stream
from consilience.data.scenario import AgentData, Scenario, shift_labels
from consilience.methods import method_named
from consilience.methods.consensus import Consensus
from consilience.paper.figures import COLOURS, MARKERS, blank, save, style
from consilience.paper.toys import Claim, Found, Toy, judged, told, watch
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

EXPECTATIONS = {
    "dynamic beats naive": "The mean accuracy of the good agents is higher with dynamic than with naive trust.",
    "every good agent": "So is the accuracy of every single good agent.",
    "dynamic beats alone": "The mean accuracy of the good agents is higher with dynamic trust than alone.",
    "least trusted": "The agent with flipped labels receives the least trust in every round.",
}
"""The paper's claims as conditions that can fail, written before the first run."""

CENTRES = np.array([(-2, 2), (2, 2), (-2, -2), (2, -2)], dtype=np.float32)
AXIS = np.linspace(-5, 5, 121, dtype=np.float32)
"""Both coordinates of the grid on which decision regions are drawn."""


@dataclass(frozen=True)
class Fig2:
    """Three networks with 10 % of the labels flipped and one with all. `regions` are (agents, y, x) by method."""

    scenario: Scenario
    regions: dict[str, Array]
    received: Array
    """Trust that each agent receives from its peers (rounds, agents), with dynamic trust."""
    accuracies: "pd.DataFrame"
    """On 20,000 fresh samples, one row per agent: alone, naive, dynamic."""
    claims: list[Claim]


def gaussian_classes(seed: int, samples: int = 100) -> Scenario:
    """Four Gaussian classes, four agents: agents 0 to 2 have 10 % random wrong labels, agent 3 only shifted ones.

    The paper does not give the number of samples: here 100 per agent, and 200 shared ones, equally from all classes.
    """

    def sample(count: int, draw: np.random.Generator) -> tuple[Array, Array]:
        y = np.repeat(np.arange(4), count)
        return (CENTRES[y] + draw.normal(0, 1, (len(y), 2))).astype(np.float32), y

    shares = {}
    for number in range(4):
        draw = stream(seed, "gaussian classes", number)
        x, y = sample(samples // 4, draw)
        if number == 3:
            y = shift_labels(y, 4, draw)
        else:
            wrong = draw.choice(samples, samples // 10, replace=False)
            y[wrong] = (y[wrong] + draw.integers(1, 4, len(wrong))) % 4
        shares[str(number)] = AgentData(x, y, x[:0], y[:0])
    shared, shared_y = sample(50, stream(seed, "shared"))
    fresh, fresh_y = sample(5000, stream(seed, "target"))
    return Scenario(shares, shared, shared_y, fresh, fresh_y, ("0", "1", "2", "3"), ("3",))


def compute(seed: int, rounds: int = 25) -> Fig2:
    """The networks trained alone, with naive and with dynamic trust (section 5.1), and the paper's claims.

    The paper does not give the number of rounds: here 5 rounds alone and 25 together, each of 5 steps of Adam (rate
    0.01) on all data at once, with lambda 0.5.
    """
    import pandas as pd

    scenario = gaussian_classes(seed)
    grid = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
    points = np.concatenate([grid, scenario.target_x])
    regions: dict[str, Array] = {}
    accuracies: dict[str, list[float]] = {"agent": list(range(4))}
    for name in ("alone", "naive", "paper"):
        method = method_named(name, Consensus(warmup=5, lam=0.5))
        seen, ws = watch(_networks(scenario, seed), scenario.shared, method, 5, points, (rounds,))
        on_grid, on_fresh = np.split(seen[rounds], [len(grid)], axis=1)
        regions[name] = on_grid.argmax(axis=2).reshape(4, len(AXIS), len(AXIS))
        accuracies[name] = [accuracy(f, scenario.target_y) for f in on_fresh]
    received = np.stack([trust_received(w) for w in ws])
    table = pd.DataFrame(accuracies)
    good = table[["alone", "naive", "paper"]][:3]
    mean, lead = good.mean(), good["paper"] - good["naive"]
    least = received.argmin(axis=1) == 3
    results: Found = {
        "dynamic beats naive": (mean["paper"] > mean["naive"], told(dynamic=mean["paper"], naive=mean["naive"])),
        "every good agent": ((lead > 0).all(), told(lead=lead)),
        "dynamic beats alone": (mean["paper"] > mean["alone"], told(dynamic=mean["paper"], alone=mean["alone"])),
        "least trusted": (least.all(), f"in {least.sum()} of {len(least)} rounds"),
    }
    return Fig2(scenario, regions, received, table, judged(EXPECTATIONS, results))


def _networks(scenario: Scenario, seed: int) -> list[Agent]:
    """Perceptrons with layers of 5, 10 and 4 neurons, the same initial ones for every method."""
    import torch
    from torch import nn

    from consilience.agents.torch_agent import TorchAgent
    from consilience.agents.training import Training

    agents: list[Agent] = []
    for name, share in scenario.shares.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "initial weights", name).integers(2**63)))
            layers = [nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 4)]
        network = nn.Sequential(*layers)
        agents.append(
            TorchAgent(
                network, share.x, share.y, name, training=Training(epochs=5, batch=len(share.y), lr=0.01), seed=seed
            )
        )
    return agents


def draw(data: Fig2, stem: str | Path) -> tuple[Path, Path]:
    """Private data and decision regions of the four agents, with dynamic and with naive trust."""
    with style():
        figure = blank(12, 5.2)
        subfigures = figure.subfigures(1, 3, squeeze=False)[0]
        titles = ("(a) private data, labels flipped", "(b) dynamic trust", "(c) naive trust")
        for subfigure, method, title in zip(subfigures, ("", "paper", "naive"), titles, strict=True):
            subfigure.suptitle(title, fontsize=10)
            panels = subfigure.subplots(2, 2, sharex=True, sharey=True)
            for number, axes in enumerate(panels.flat):
                share = data.scenario.shares[str(number)]
                if method:
                    _draw_regions(axes, data.regions[method][number])
                    score = data.accuracies[method][number]
                    axes.set_title(f"agent {number}: accuracy {score:.3f}")
                else:
                    _draw_classes(axes, share.x, share.y)
                    flipped = "all" if str(number) in data.scenario.low_quality else "10 %"
                    axes.set_title(f"agent {number}: {flipped} flipped")
                axes.set(xlim=(-5, 5), ylim=(-5, 5), xticks=(-4, 0, 4), yticks=(-4, 0, 4), aspect="equal")
                axes.spines[:].set_visible(True)
            subfigure.supxlabel("x₁", fontsize=9)
            subfigure.supylabel("x₂", fontsize=9)
        handles, labels = subfigures[0].axes[0].get_legend_handles_labels()
        meaning = "label in the data, class predicted in a region"
        figure.legend(handles, labels, loc="outside lower center", ncols=4, title=meaning)
        return save(figure, stem)


def _draw_classes(axes: "Axes", x: Array, y: Array) -> None:
    for label in range(4):
        mine = x[y == label]
        looks: dict[str, Any] = {"color": COLOURS[label], "marker": MARKERS[label], "linewidths": 0}
        axes.scatter(mine[:, 0], mine[:, 1], s=16, label=f"class {label}", **looks)


def _draw_regions(axes: "Axes", regions: Array) -> None:
    """Decision regions in light colours with black borders; at each class's mean the marker of what is predicted."""
    from matplotlib.colors import ListedColormap, to_rgb

    light = ListedColormap([tuple(0.45 + 0.55 * channel for channel in to_rgb(colour)) for colour in COLOURS])
    edge = (AXIS[1] - AXIS[0]) / 2
    extent = (AXIS[0] - edge, AXIS[-1] + edge, AXIS[0] - edge, AXIS[-1] + edge)
    axes.imshow(regions, origin="lower", extent=extent, cmap=light, vmin=0, vmax=3, interpolation="nearest")
    for label, (x, y) in enumerate(CENTRES):
        if 0 < (regions == label).mean() < 1:
            axes.contour(AXIS, AXIS, regions == label, levels=[0.5], colors="black", linewidths=0.8)
        predicted = regions[np.abs(AXIS - y).argmin(), np.abs(AXIS - x).argmin()]
        axes.scatter(x, y, s=30, color=COLOURS[predicted], marker=MARKERS[predicted], edgecolors="black")
    axes.axhline(0, color="white", linewidth=1, linestyle=":")
    axes.axvline(0, color="white", linewidth=1, linestyle=":")


ARTEFACTS = (
    Toy(
        "fig2",
        "Fig. 2: decision boundaries, one agent with all labels flipped",
        "Good agents are better with dynamic than with naive trust and alone, and trust the bad one least.",
        compute,
        draw,
    ),
)
