"""Two hospitals that measure different things learn from the same shared patients.

One has a laboratory and reads the size of cells, the other a microscope and reads their texture. The shared table has
all columns; each agent chooses its own. The agent with the worse measurements gains; the other hardly changes.
"""

import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import consilience as cs

x, y = load_breast_cancer(return_X_y=True, as_frame=True)
y = y.map({0: "malignant", 1: "benign"})
order = x.sample(frac=1, random_state=0).index
x, y = x.loc[order], y.loc[order]
size = [name for name in x.columns if "radius" in name or "perimeter" in name or "area" in name]
texture = [name for name in x.columns if "texture" in name or "smoothness" in name or "symmetry" in name]
agents = [
    cs.SklearnAgent(
        make_pipeline(StandardScaler(), LogisticRegression()), x[:20], y[:20], "size", transform=lambda rows: rows[size]
    ),
    cs.SklearnAgent(RandomForestClassifier(50), x[20:60], y[20:60], "texture", transform=lambda rows: rows[texture]),
]
result = cs.collaborate(agents, x[60:260], method=cs.Consensus(warmup=1), rounds=6, target=(x[260:], y[260:]))
scores = result.history.pivot(index="round", columns="agent", values="accuracy_target")
alone = result.run.references["alone"].last_round().set_index("agent")["accuracy_target"]
print(result.run.summary.classes)
print(pd.DataFrame({"alone": alone, "together": scores.iloc[-1]}).round(3))
