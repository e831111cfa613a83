"""Two hospitals leave with their models: export, predict from the folder alone, and predict together."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import consilience as cs

table, ill = load_breast_cancer(return_X_y=True, as_frame=True)
words = np.where(ill == 0, "malignant", "benign")
shared, target, new = slice(0, 200), slice(200, 400), slice(460, None)
north, south = slice(400, 420), slice(420, 460)
agents = [
    cs.SklearnAgent(make_pipeline(StandardScaler(), LogisticRegression()), table[north], words[north], "north"),
    cs.SklearnAgent(RandomForestClassifier(30), table[south], words[south], "south"),
]
result = cs.collaborate(agents, table[shared], target=(table[target], words[target]))
scores = result.history.pivot(index="round", columns="agent", values="accuracy_target")

result.export("models")  # models/north and models/south, each with a model card: README.md
model = cs.load_model("models/north")
assert np.allclose(model.predict(table[new]), agents[0].predict(table[new]), atol=1e-6)
print(model.classes, model.predict_labels(table[new])[:5])

together = result.predict(table[new])
print("part of each hospital in the first prediction:", dict(zip(together.names, together.parts[0].round(2), strict=True)))
for name, f in {**together.by_agent, "together": together.predictions}.items():
    right = np.array(model.classes)[f.argmax(axis=1)] == words[new]
    print(f"{name}: {right.mean():.3f} of {len(right)} new patients right")
