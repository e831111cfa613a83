"""What the agents of the README's snippet gain over equal training alone, over eight seeds of data and models.

python -m benchmarks.snippet
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from torch import nn

import consilience as cs
from consilience.experiments.compare import estimate

SEEDS = range(8)


def gains(seed: int) -> dict[str, list[float]]:
    """Accuracy alone, together and gain of each agent."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y = (x[order] / 16).astype("float32"), y[order]
    low, high = 900 + np.flatnonzero(y[900:] < 7)[:60], 900 + np.flatnonzero(y[900:] > 2)[60:110]
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    agents = [
        cs.TorchAgent(network, x[low], y[low], name="network", seed=seed),
        cs.SklearnAgent(RandomForestClassifier(30), x[high], y[high], name="forest", seed=seed),
    ]
    result = cs.collaborate(agents, x[:300], method=cs.Consensus(lam=0.5), target=(x[300:900], y[300:900]))
    table = result.gains.query("score == 'accuracy'").set_index("agent")
    return {name: list(table.loc[name, ["alone", "together", "gain"]]) for name in table.index}


if __name__ == "__main__":
    found = [gains(seed) for seed in SEEDS]
    for name in found[0]:
        columns = np.array([one[name] for one in found], dtype=float).T
        alone, together, gain = (estimate(column) for column in columns)
        print(
            f"{name}: alone {alone.mean:.3f}, together {together.mean:.3f}, gain {gain.mean:+.3f} ± "
            f"{gain.half_width:.3f}, the smallest {columns[2].min():+.3f}"
        )
