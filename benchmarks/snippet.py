"""What the agents of the README's snippet gain over equal training alone, over eight seeds of data and models.

python -m benchmarks.snippet
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import consilience as cs
from consilience.experiments.compare import estimate

SEEDS = range(8)


def gains(seed: int) -> dict[str, list[float]]:
    """Accuracy alone, together and gain of each agent."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y = x[order], y[order]
    a, b = y[900:1000] < 7, y[1000:1100] > 2
    models = {"forest": (RandomForestClassifier(30), 900, a), "linear": (LogisticRegression(max_iter=1000), 1000, b)}
    agents = [
        cs.SklearnAgent(model, x[start : start + 100][own], y[start : start + 100][own], name=name, seed=seed)
        for name, (model, start, own) in models.items()
    ]
    result = cs.collaborate(agents, shared=x[:300], target=(x[300:900], y[300:900]), progress=False)
    table = result.gains.query("score == 'accuracy'").set_index("agent")
    return {name: list(table.loc[name, ["alone", "together", "gain"]]) for name in table.index}


if __name__ == "__main__":
    runs = [gains(seed) for seed in SEEDS]
    for name in runs[0]:
        columns = np.array([run[name] for run in runs], dtype=float).T
        alone, together, gain = (estimate(column) for column in columns)
        print(
            f"{name}: alone {alone.mean:.3f}, together {together.mean:.3f}, gain {gain.mean:+.3f} ± "
            f"{gain.half_width:.3f}, the smallest {columns[2].min():+.3f}"
        )
