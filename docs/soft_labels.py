"""How well estimators learn from pseudo-labels in each of the ways that there are: table of docs/reference/notation.md.

    python docs/soft_labels.py

An agent with 60 handwritten digits learns from 300 shared ones, whose pseudo-labels are the mean prediction of nine
others like it. Printed is its accuracy on 800 more, mean over seeds 100 to 104: alone, and with each way.
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from consilience import SklearnAgent
from consilience.agents.models.built_in import boosting, forest, logistic, neighbours
from consilience.agents.soft_labels import MODES

OWN, SHARED, SEEDS, LAM = 60, 300, range(100, 105), 0.5
ESTIMATORS = {
    "`logistic`": logistic(),
    "`forest`": forest(),
    "`boosting`": boosting(),
    "`neighbours`": neighbours(),
    "scaler, then logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "linear discriminant analysis": LinearDiscriminantAnalysis(),
    "tree, at least 20 rows a leaf": DecisionTreeClassifier(min_samples_leaf=20),
}


def accuracies(estimator, seed: int) -> list[float]:
    """Alone, then with each of MODES; NaN where a way is not possible."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y = x[order] / 16, y[order]
    parts = [slice(OWN * n, OWN * (n + 1)) for n in range(10)]
    shared, (new_x, new_y) = x[600 : 600 + SHARED], (x[-800:], y[-800:])
    agents = [SklearnAgent(estimator, x[p], y[p], str(n), classes=10, seed=seed) for n, p in enumerate(parts)]
    psi = np.mean([agent.predict(shared) for agent in agents[1:]], axis=0)
    found = [(agents[0].predict(new_x).argmax(axis=1) == new_y).mean()]
    for mode in MODES:
        agent = SklearnAgent(estimator, x[parts[0]], y[parts[0]], "0", classes=10, seed=seed, soft_labels=mode)
        try:
            agent.train(shared, psi, LAM)
        except TypeError:  # takes no weights
            found.append(float("nan"))
            continue
        found.append((agent.predict(new_x).argmax(axis=1) == new_y).mean())
    return found


def main() -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    print("| estimator | found out | alone | repeated | largest | sharpened | drawn |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, estimator in ESTIMATORS.items():
        means = np.mean([accuracies(estimator, seed) for seed in SEEDS], axis=0)
        digits = np.random.default_rng(0).random((60, 4))
        chosen = SklearnAgent(estimator, digits, np.arange(60) % 3).soft_labels
        cells = ["-" if np.isnan(value) else f"{value:.3f}" for value in means]
        print(f"| {name} | {chosen} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
