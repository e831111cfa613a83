"""A site's own agent for tests: logistic regression that stops in a phase of a round while a file says so.

Files in the folder `hold` beside this one name phases: predict-N, train-N (before the training of round N) and
checkpoint-N (the checkpoint of round N is written, but not yet in its place). `at` shows where the agent was held.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from consilience.agents.sklearn_agent import SklearnAgent

HERE = Path(__file__).parent


def pause(phase: str) -> None:
    """Waits while hold/phase is there, or for as many seconds as it says."""
    hold = HERE / "hold" / phase
    if hold.exists():
        (HERE / "at").mkdir(exist_ok=True)
        (HERE / "at" / phase).touch()
        end = time.monotonic() + float(hold.read_text() or 1e9)
        while hold.exists() and time.monotonic() < end:
            time.sleep(0.02)


class Pausing:
    """An agent that can be held in a phase."""

    def __init__(self, agent: SklearnAgent) -> None:
        self._agent = agent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def train(self, shared: Any, labels: Any, lam: float) -> Any:
        pause(f"train-{self._agent._round + 1}")
        pause("train")
        return self._agent.train(shared, labels, lam)


def make_agent(name: str, classes: tuple[str, ...], seed: int) -> Pausing:
    """The agent of the site in this folder."""
    replace = Path.replace

    def slowly(path: Path, target: Path) -> Path:
        if target.name.startswith("round-"):
            pause(f"checkpoint-{int(target.name[6:11])}")
        return replace(path, target)

    Path.replace = slowly  # type: ignore[assignment,method-assign]
    with np.load(HERE / "train.npz") as data:
        model = LogisticRegression(max_iter=200, tol=1e-2)
        return Pausing(
            SklearnAgent(model, data["x"], data["y"], name, classes=len(classes), kind="logistic", seed=seed)
        )
