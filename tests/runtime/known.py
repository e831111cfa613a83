"""Agents whose predictions are known tables, a method that follows a script, and every score with plain loops."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log, nan, sqrt
from typing import Any

import numpy as np

from consilience import Wire
from consilience.extend import Losses, Record, Round
from consilience.runtime.history import Evaluation
from consilience.runtime.summary import Summary
from consilience.tasks import task_named

NAMES = ("a", "b", "c")
ROUNDS, ALL, OUTPUTS = 3, 40, 3
SHARED = np.arange(9)[:, None]
"""Samples are their own numbers: rows of the agents' tables."""
TARGET = np.arange(9, 20)[:, None]
OWN = {"a": np.arange(20, 26)[:, None], "b": np.arange(26, 33)[:, None], "c": np.arange(33, 40)[:, None]}
TASKS = ("classification", "multilabel", "regression")


def draw(task: str, seed: int) -> np.ndarray:
    """A table of predictions (all samples, outputs): for probabilities sixteenths, so that some are equal, and sure."""
    generator = np.random.default_rng(seed)
    if task == "regression":
        return generator.normal(0, 3, (ALL, OUTPUTS)).astype(np.float32)
    if task == "multilabel":
        return (generator.integers(0, 17, (ALL, OUTPUTS)) / 16).astype(np.float32)
    table = [generator.multinomial(16, p) for p in generator.dirichlet(np.full(OUTPUTS, 0.7), ALL)]
    return (np.stack(table) / 16).astype(np.float32)


def labels(task: str) -> np.ndarray:
    """The truth of every sample."""
    generator = np.random.default_rng(77)
    if task == "regression":
        return generator.normal(0, 3, (ALL, OUTPUTS))
    if task == "multilabel":
        return generator.integers(0, 2, (ALL, OUTPUTS)).astype(np.float32)
    return generator.integers(0, OUTPUTS, ALL)


class Known:
    """An agent that predicts in each round what its table says."""

    outputs, samples, class_counts, kind, parameters, noise = OUTPUTS, 5, [5], "known", None, 1.0

    def __init__(self, name: str, task: str = "classification") -> None:
        self.name, self.task, self.round = name, task_named(task), 0
        self.tables = [draw(task, 10 * t + NAMES.index(name)) for t in range(ROUNDS + 1)]

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.tables[self.round][x[:, 0]]

    def train(self, shared: np.ndarray, labels: np.ndarray | None, lam: float) -> Losses:
        self.round += 1
        return losses_of(self.name, self.round)

    def state(self) -> dict[str, np.ndarray]:
        return {"round": np.array(self.round)}

    def restore(self, state: dict[str, np.ndarray], shared: np.ndarray) -> None:
        self.round = int(state["round"])


def losses_of(name: str, number: int) -> Losses:
    index = NAMES.index(name)
    return Losses(number + index / 10, 5 * number + index / 100 if number > 1 else float("nan"))


def bytes_of(name: str, number: int) -> int:
    return 1000 * number + NAMES.index(name)


def trust_of(number: int) -> np.ndarray | None:
    """None in the first round."""
    draws = np.random.default_rng(number).dirichlet(np.ones(3), 3)
    return draws if number > 1 else None


@dataclass(frozen=True)
class Script:
    """A method in which everything is known beforehand."""

    label = title = "script"
    warmup, uses_shared, wire = 1, False, Wire()

    def rounds(self, agents: Any, shared: np.ndarray, exchange: Any, start: Any) -> Iterator[Round]:
        for t in range(start.done + 1, start.rounds + 1):
            losses = agents.train(shared, {}, 0.0)
            sent = {name: bytes_of(name, t) for name in agents.names}
            yield Round(t, Record(agents.published(shared), losses, sent, exchange.roster, {}, trust_of(t)))


def summary_of(task: str, rounds: int = ROUNDS) -> Summary:
    return Summary("script", "script", task, rounds, 1, len(SHARED))


def evaluation_of(task: str) -> Evaluation:
    y = labels(task)
    own = {name: (x, y[x[:, 0]]) for name, x in OWN.items()}
    return Evaluation(y[SHARED[:, 0]], (TARGET, y[TARGET[:, 0]]), own)


# Every score, sample by sample.


def area(values: list[float], positive: list[bool]) -> float:
    """The share of pairs (positive, other) in which the positive has the higher value; equal ones count half."""
    pairs = [
        (v, w) for v, p in zip(values, positive, strict=True) for w, q in zip(values, positive, strict=True) if p > q
    ]
    return sum(1.0 if v > w else 0.5 if v == w else 0.0 for v, w in pairs) / len(pairs) if pairs else float("nan")


def mean(values: list[float]) -> float:
    """Of those that are known."""
    known = [value for value in values if value == value]
    return sum(known) / len(known)


def calibration(sure: list[float], right: list[bool]) -> float:
    """Fifteen bins of how sure a prediction is: the gap between its share of right ones and the mean sureness."""
    error = 0.0
    for b in range(15):
        here = [k for k, s in enumerate(sure) if min(max(ceil(s * 15) - 1, 0), 14) == b]
        if here:
            gap = sum(right[k] for k in here) / len(here) - sum(sure[k] for k in here) / len(here)
            error += len(here) / len(sure) * abs(gap)
    return error


def scores_by_hand(task: str, f: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Every score of a task, with plain loops."""
    n = len(f)
    rows = [[float(value) for value in row] for row in f]
    tiny = float(np.finfo(np.float32).eps)
    if task == "regression":
        return {"rmse": sqrt(sum((rows[s][k] - y[s][k]) ** 2 for s in range(n) for k in range(OUTPUTS)) / n / OUTPUTS)}
    if task == "multilabel":
        right = [[(rows[s][k] > 0.5) == (y[s][k] == 1) for k in range(OUTPUTS)] for s in range(n)]
        areas, losses, gaps = [], [], []
        for k in range(OUTPUTS):
            areas.append(area([rows[s][k] for s in range(n)], [y[s][k] == 1 for s in range(n)]))
            chances = [rows[s][k] if y[s][k] == 1 else 1 - rows[s][k] for s in range(n)]
            losses.append(-sum(log(min(max(p, tiny), 1 - tiny)) for p in chances) / n)
            gaps.append(calibration([max(rows[s][k], 1 - rows[s][k]) for s in range(n)], [r[k] for r in right]))
        return {
            "accuracy": sum(sum(r) for r in right) / n / OUTPUTS,
            "subset_accuracy": sum(all(r) for r in right) / n,
            "auc": mean(areas),
            "log_loss": mean(losses),
            "calibration_error": mean(gaps),
        }
    best = [max(range(OUTPUTS), key=lambda c, row=row: row[c]) for row in rows]
    right = [best[s] == y[s] for s in range(n)]
    by_class = {c: [right[s] for s in range(n) if y[s] == c] for c in range(OUTPUTS)}
    return {
        "accuracy": sum(right) / n,
        "balanced_accuracy": mean([sum(hits) / len(hits) for hits in by_class.values() if hits]),
        "auc": mean([area([row[c] for row in rows], [y[s] == c for s in range(n)]) for c in range(OUTPUTS)]),
        "sensitivity": nan,
        "specificity": nan,
        "log_loss": -sum(log(min(max(rows[s][y[s]], tiny), 1 - tiny)) for s in range(n)) / n,
        "calibration_error": calibration([max(row) for row in rows], right),
    }


def disagreements_by_hand(tables: list[np.ndarray]) -> tuple[list[float], float]:
    """Each agent's with the mean of all, and the largest between any two: means over samples of the worst output."""
    samples, n = range(len(tables[0])), len(tables)
    outputs = range(tables[0].shape[1])
    own = []
    for f in tables:
        gaps = [max(abs(f[s][k] - sum(g[s][k] for g in tables) / n) for k in outputs) for s in samples]
        own.append(sum(gaps) / len(gaps))
    worst = [max(abs(f[s][k] - g[s][k]) for k in outputs for f in tables for g in tables) for s in samples]
    return own, sum(worst) / len(worst)
