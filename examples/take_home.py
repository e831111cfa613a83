"""Three agents leave with their models: export, predict from the folder alone, and predict together."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import consilience as cs

table, digit = load_digits(return_X_y=True, as_frame=True)
words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[digit]
shared, target, new = slice(0, 300), slice(300, 900), slice(1100, None)
one, two, three = slice(900, 950), slice(950, 1000), slice(1000, 1050)
agents = [
    cs.SklearnAgent(make_pipeline(StandardScaler(), LogisticRegression()), table[one], words[one], "one"),
    cs.SklearnAgent(RandomForestClassifier(30), table[two], words[two], "two"),
    cs.SklearnAgent(RandomForestClassifier(30), table[three], words[three], "three"),
]
result = cs.collaborate(agents, table[shared], rounds=10, target=(table[target], words[target]))

result.export("models")  # models/one, models/two and models/three, each with a model card: README.md
model = cs.load_model("models/one")
assert np.allclose(model.predict(table[new]), agents[0].predict(table[new]), atol=1e-6)
print("from the folder:", model.predict_labels(table[new])[:5], "right:", words[new][:5].tolist())

together = result.predict(table[new])
for name, part in zip(together.names, together.parts.mean(axis=0), strict=True):
    right = np.array(model.classes)[together.by_agent[name].argmax(axis=1)] == words[new]
    print(f"{name}: {right.mean():.3f} right, part {part:.2f}")
right = np.array(model.classes)[together.predictions.argmax(axis=1)] == words[new]
print(f"together: {right.mean():.3f} right of {len(right)} new images")
