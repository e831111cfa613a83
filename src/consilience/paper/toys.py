"""The paper's toy experiments, Fig. 1, Fig. 2 and the figure of appendix A.1: seconds each, and they say what held.

Rounds count collaboration alone: round 0 is what an agent has learnt from its private data by itself.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from consilience.agents.protocol import Agent
from consilience.agents.torch_agent import TorchAgent
from consilience.core.consensus import trust_received
from consilience.core.metrics import accuracy, rmse
from consilience.core.streams import stream
from consilience.data.scenario import Scenario, Share, polynomial, shift_labels
from consilience.methods import method_named
from consilience.methods.consensus import Consensus
from consilience.methods.protocol import Method
from consilience.runtime.driver import run_rounds
from consilience.runtime.exchange import InMemory
from consilience.runtime.summary import Summary
from consilience.settings.settings import Settings, changed
from consilience.settings.wiring import build_agents
from consilience.tasks.protocol import Array

EXPECTATIONS = {
    "fig1": {
        "approach": "The largest difference between two agents on X* falls from round 0 to 5 to 20 to 50.",
        "consensus": "From round 20 on no two agents differ anywhere on X* by more than 1, the noise in a label.",
        "parameters": "After 20 rounds some two differ by more than 0.01 in their coefficients.",
        "beyond X*": "After 20 rounds some two differ on [-8, 8] at least five times as much as on X*.",
        "gain": "Every agent is closer to the truth on X* after 20 rounds than alone.",
        "rich and scarce": "Every agent changes less where it has data (within 1 sd) than where it has none (3 sd).",
    },
    "figA1": {
        "weak underfits": "With dynamic trust the weak agent's error stays above twice that of every strong agent.",
        "strong agree": "With dynamic trust no two strong agents differ on X* by more than 1 after 50 rounds.",
        "strong predict well": "With dynamic trust the error of every strong agent on X* is below 1 after 50 rounds.",
        "little trust": "On average strong agents trust the weak one less than an equal share, 1/4, in every round.",
        "trust falls": "They trust it less in the last round than in the first.",
        "dynamic beats naive": "Every strong agent is closer to the truth on X* with dynamic than with naive trust.",
        "naive impairs": "With naive trust every strong agent is worse than alone even where it has data.",
    },
    "fig2": {
        "dynamic beats naive": "The mean accuracy of the good agents is higher with dynamic than with naive trust.",
        "every good agent": "So is the accuracy of every single good agent.",
        "dynamic beats alone": "The mean accuracy of the good agents is higher with dynamic trust than alone.",
        "least trusted": "The agent with flipped labels receives the least trust in every round.",
    },
}
"""What the paper says of each figure, as conditions that can fail; written before the first run."""

Found = dict[str, tuple[Any, str]]
ROUNDS = 50
WIDE = np.linspace(-8, 8, 161, dtype=np.float32)
"""Where the polynomials are compared beyond X*, which ends at -4 and 4."""
CENTRES = np.array([(-2, 2), (2, 2), (-2, -2), (2, -2)], dtype=np.float32)
AXIS = np.linspace(-5, 5, 121, dtype=np.float32)
"""Both coordinates of the grid on which decision regions are drawn."""


@dataclass(frozen=True)
class Claim:
    """One expectation, whether it holds, and the numbers that decided."""

    name: str
    expectation: str
    holds: bool
    measured: str


@dataclass(frozen=True)
class Fig1:
    """Three polynomials of degree 4 with equal trust. `on_shared` and `on_wide` are (rounds + 1, agents, points)."""

    scenario: Scenario
    on_shared: Array
    on_wide: Array
    course: pd.DataFrame
    """One row per round: the largest difference between two agents on X*, on [-8, 8], and in their coefficients."""
    errors: pd.DataFrame
    """Root mean squared error against the truth on X*, one row per agent: alone, and together after 20 rounds."""
    claims: list[Claim]


@dataclass(frozen=True)
class FigA1:
    """Three polynomials of degree 4 and a weak one of degree 1. `fits` are (agents, points of WIDE) by method."""

    scenario: Scenario
    fits: dict[str, Array]
    trust_in_weak: Array
    """Mean over the strong agents (rounds,), with dynamic trust."""
    errors: pd.DataFrame
    """Root mean squared error against the truth on X*, one row per agent: alone, naive, dynamic."""
    claims: list[Claim]


@dataclass(frozen=True)
class Fig2:
    """Three networks with 10 % of the labels flipped and one with all. `regions` are (agents, y, x) by method."""

    scenario: Scenario
    regions: dict[str, Array]
    received: Array
    """Trust that each agent receives from its peers (rounds, agents), with dynamic trust."""
    accuracies: pd.DataFrame
    """On 20,000 fresh samples, one row per agent: alone, naive, dynamic."""
    claims: list[Claim]


def fig1(seed: int) -> Fig1:
    """Fig. 1: consensus on X* without the same parameters (section 3.4 of the paper).

    A polynomial of degree 4 does not fit 50 noisy labels exactly, so the differences level off instead of vanishing.
    They could not vanish and leave the parameters different: polynomials that agree on five points are the same.
    """
    scenario = polynomial(seed, 3)
    on_shared, on_wide, _ = _polynomials(scenario, seed, (4, 4, 4), "naive", range(ROUNDS + 1))
    near, far = _largest_difference(on_shared), _largest_difference(on_wide)
    apart = np.array([_coefficient_distance(f) for f in on_wide])
    course = pd.DataFrame({"round": range(ROUNDS + 1), "on_shared": near, "on_wide": far, "parameters": apart})
    errors = _errors({"alone": on_shared[0], "together": on_shared[20]}, scenario)
    moved = np.abs(on_shared[20] - on_shared[0])
    rich, scarce = (moved.mean(axis=1, where=chosen) for chosen in (_away(scenario) <= 1, _away(scenario) > 3))
    steps = near[[0, 5, 20, 50]]
    found: Found = {
        "approach": ((np.diff(steps) < 0).all(), _told(differences=steps)),
        "consensus": (near[20:].max() <= 1, _told(largest=near[20:].max())),
        "parameters": (apart[20] > 0.01, _told(distance=apart[20])),
        "beyond X*": (far[20] >= 5 * near[20], _told(beyond=far[20], inside=near[20])),
        "gain": ((errors["together"] < errors["alone"]).all(), _told(**errors[["alone", "together"]])),
        "rich and scarce": ((rich < scarce).all(), _told(with_data=rich, without=scarce)),
    }
    return Fig1(scenario, on_shared, on_wide, course, errors, _claims("fig1", found))


def figA1(seed: int) -> FigA1:
    """The figure of appendix A.1: a weak model among strong ones, with dynamic and with naive trust."""
    scenario = polynomial(seed, 4)
    inside: dict[str, Array] = {}
    fits: dict[str, Array] = {}
    for method in ("naive", "dynamic"):
        near, far, ws = _polynomials(scenario, seed, (4, 4, 4, 1), method, (0, ROUNDS))
        inside |= {"alone": near[0], method: near[1]}
        fits |= {"alone": far[0], method: far[1]}
    errors = _errors(inside, scenario)
    strong, weak = errors[:3], errors["dynamic"][3]
    in_weak = ws[:, :3, 3].mean(axis=1)
    in_strong = trust_received(ws[-1, :3, :3]).mean() / 2
    apart = _largest_difference(inside["dynamic"][:3])
    squares = {name: np.square(f - scenario.shared_y[:, 0]) for name, f in inside.items()}
    own = {name: np.sqrt(values.mean(axis=1, where=_away(scenario) <= 1))[:3] for name, values in squares.items()}
    best, naive = strong["dynamic"], strong["naive"]
    found: Found = {
        "weak underfits": (weak > 2 * best.max(), _told(weak=weak, strong=best)),
        "strong agree": (apart <= 1, _told(largest=apart)),
        "strong predict well": ((best < 1).all(), _told(errors=best)),
        "little trust": ((in_weak < 0.25).all(), _told(most=in_weak.max(), in_a_strong_peer_at_last=in_strong)),
        "trust falls": (in_weak[-1] < in_weak[0], _told(first=in_weak[0], last=in_weak[-1])),
        "dynamic beats naive": ((best < naive).all(), _told(dynamic=best, naive=naive)),
        "naive impairs": ((own["naive"] > own["alone"]).all(), _told(**own)),
    }
    return FigA1(scenario, fits, in_weak, errors, _claims("figA1", found))


def gaussian_classes(seed: int, samples: int = 100) -> Scenario:
    """Four Gaussian classes, four agents: agents 0 to 2 have 10 % random wrong labels, agent 3 only shifted ones.

    The paper does not say how many samples: here 100 per agent, and 200 shared ones, equally from all classes.
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
        shares[str(number)] = Share(x, y, x[:0], y[:0])
    shared, shared_y = sample(50, stream(seed, "shared"))
    fresh, fresh_y = sample(5000, stream(seed, "target"))
    return Scenario(shares, shared, shared_y, fresh, fresh_y, ("0", "1", "2", "3"), ("3",))


def fig2(seed: int, rounds: int = 25) -> Fig2:
    """Fig. 2: decision regions of small networks when one agent's labels are all wrong (section 5.1).

    The paper does not say for how long: here 5 rounds alone and 25 together, each of 5 steps of Adam (rate 0.01) on
    all data at once, with lambda 0.5.
    """
    scenario = gaussian_classes(seed)
    grid = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
    points = np.concatenate([grid, scenario.target_x])
    regions: dict[str, Array] = {}
    accuracies: dict[str, list[float]] = {"agent": list(range(4))}
    for name in ("alone", "naive", "dynamic"):
        method = method_named(name, Consensus(warmup=5, lam=0.5))
        seen, ws = _watch(_networks(scenario, seed), scenario.shared, method, 5, points, (rounds,))
        on_grid, on_fresh = np.split(seen[rounds], [len(grid)], axis=1)
        regions[name] = on_grid.argmax(axis=2).reshape(4, len(AXIS), len(AXIS))
        accuracies[name] = [accuracy(f, scenario.target_y) for f in on_fresh]
    received = np.stack([trust_received(w) for w in ws])
    table = pd.DataFrame(accuracies)
    good = table[["alone", "naive", "dynamic"]][:3]
    mean, lead = good.mean(), good["dynamic"] - good["naive"]
    least = received.argmin(axis=1) == 3
    found: Found = {
        "dynamic beats naive": (mean["dynamic"] > mean["naive"], _told(dynamic=mean["dynamic"], naive=mean["naive"])),
        "every good agent": ((lead > 0).all(), _told(lead=lead)),
        "dynamic beats alone": (mean["dynamic"] > mean["alone"], _told(dynamic=mean["dynamic"], alone=mean["alone"])),
        "least trusted": (least.all(), f"in {least.sum()} of {len(least)} rounds"),
    }
    return Fig2(scenario, regions, received, table, _claims("fig2", found))


def _watch(
    agents: Sequence[Agent], shared: Array, method: Method, warmup: int, points: Array, keep: Collection[int]
) -> tuple[dict[int, Array], Array]:
    """Predictions (agents, points, outputs) after the rounds to `keep`, counted after the warm-up, and the trust."""
    seen: dict[int, Array] = {}

    def look(number: int, means: dict[str, float]) -> None:
        if number - warmup in keep:
            seen[number - warmup] = np.stack([agent.predict(points) for agent in agents])

    exchange = InMemory(tuple(agent.name for agent in agents))
    summary = Summary(method.label, method.title, agents[0].task.name, warmup + max(keep), warmup, len(shared))
    run = run_rounds(agents, shared, exchange, method, summary, on_round=look)
    return seen, run.trust


def _polynomials(
    scenario: Scenario, seed: int, degrees: tuple[int, ...], trust: str, keep: Collection[int]
) -> tuple[Array, Array, Array]:
    """Polynomials that train together: their predictions (kept rounds, agents, points) on X* and WIDE, and the trust.

    There is one round alone, in which agents learn how noisy their labels are, and lambda is 1.
    """
    models = tuple(f"polynomial-{degree}" for degree in degrees)
    changes = {"dataset": "polynomial", "agents.count": len(degrees), "models": models, "seed": seed}
    agents = build_agents(changed(Settings(), changes), scenario)
    method = method_named(trust, Consensus(warmup=1, lam=1.0))
    points = np.concatenate([scenario.shared, WIDE[:, None]])
    seen, ws = _watch(agents, scenario.shared, method, 1, points, keep)
    inside, wide = np.split(np.stack([seen[t][..., 0] for t in keep]), [len(scenario.shared)], axis=2)
    return inside, wide, ws


def _networks(scenario: Scenario, seed: int) -> list[Agent]:
    """Perceptrons with layers of 5, 10 and 4 neurons, the same initial ones for every method."""
    agents: list[Agent] = []
    for name, share in scenario.shares.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "initial weights", name).integers(2**63)))
            layers = [nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 4)]
        network = nn.Sequential(*layers)
        agents.append(TorchAgent(network, share.x, share.y, name, epochs=5, batch=len(share.y), lr=0.01, seed=seed))
    return agents


def _largest_difference(f: Array) -> Array:
    """max_x max_{i,j} |f_i(x) - f_j(x)| of predictions (..., agents, points)."""
    return np.asarray(np.ptp(f, axis=-2).max(axis=-1))


def _coefficient_distance(f: Array) -> float:
    """The largest Euclidean distance between the coefficients of two polynomials f (agents, points of WIDE)."""
    coefficients = np.polynomial.polynomial.polyfit(WIDE, f.T.astype(np.float64), 4).T
    return float(max(np.linalg.norm(a - b) for a, b in combinations(coefficients, 2)))


def _away(scenario: Scenario) -> Array:
    """How many standard deviations of its own data each shared point is from each agent's mean (agents, samples)."""
    return np.stack([np.abs(scenario.shared[:, 0] - s.x.mean()) / s.x.std() for s in scenario.shares.values()])


def _errors(predictions: dict[str, Array], scenario: Scenario) -> pd.DataFrame:
    """Root mean squared errors on X*, one row per agent and one column per entry of `predictions`."""
    columns = {name: [rmse(row, scenario.shared_y) for row in f] for name, f in predictions.items()}
    return pd.DataFrame({"agent": range(len(scenario.shares))} | columns)


def _claims(figure: str, found: Found) -> list[Claim]:
    return [Claim(name, text, bool(found[name][0]), found[name][1]) for name, text in EXPECTATIONS[figure].items()]


def _told(**numbers: Any) -> str:
    """Names and their numbers, as in "alone 0.91 0.93, naive 0.95"."""
    parts = (" ".join(f"{value:.4g}" for value in np.ravel(values)) for values in numbers.values())
    return ", ".join(f"{name.replace('_', ' ')} {part}" for name, part in zip(numbers, parts, strict=True))
