"""A table with words and gaps: four hospitals diagnose heart disease, each with a model of its own.

Every model reads the DataFrame in its own way: the table stays as it is.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import consilience as cs

WORDS = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "other pain", 4: "none"},
    "restecg": {0: "normal", 1: "ST-T abnormal", 2: "hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}


def patients() -> pd.DataFrame:
    """920 patients of four hospitals (UCI); without them 400 made-up ones with the same kinds of columns."""
    file = Path(os.environ.get("CONSILIENCE_DATA", "../shared/data")) / "heart-disease" / "heart_disease.csv"
    if file.is_file():
        table = pd.read_csv(file)
    else:
        draw = np.random.default_rng(0)
        table = pd.DataFrame({name: draw.choice(list(words), 400) for name, words in WORDS.items()})
        table["age"], table["oldpeak"] = draw.normal(55, 9, 400), draw.normal(1, 1, 400)
        table["hospital"] = draw.choice(["cleveland", "hungarian", "switzerland", "va"], 400)
        table["num"] = table["oldpeak"] + (table["cp"] == 4) + draw.normal(0, 0.7, 400) > 1.3
        table = table.mask((draw.random(table.shape) < 0.1) & ~table.columns.isin(["num", "hospital"]))
    for name, words in WORDS.items():
        table[name] = table[name].map(words).astype("category")
    return table.assign(diagnosis=np.where(table.pop("num").astype(float) > 0, "ill", "healthy"))


def to_numbers():
    """Gaps filled and words encoded, by the type of a column."""
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    return make_column_transformer(
        (words, make_column_selector(dtype_include="category")), (numbers, make_column_selector(dtype_include="number"))
    )


models = {
    "cleveland": HistGradientBoostingClassifier(max_iter=40, categorical_features="from_dtype"),
    "hungarian": make_pipeline(to_numbers(), RandomForestClassifier(50)),
    "switzerland": make_pipeline(to_numbers(), LogisticRegression(max_iter=1000)),
    "va": make_pipeline(to_numbers(), LogisticRegression(C=0.1, max_iter=1000)),
}
table = patients().sample(frac=1, random_state=0, ignore_index=True)
shared, target, rest = table[:160], table[160:400], table[400:]
agents = []
for hospital, model in models.items():
    own = rest[rest["hospital"] == hospital].drop(columns="hospital")
    agents.append(cs.SklearnAgent(model, own, "diagnosis", hospital))
result = cs.collaborate(
    agents,
    shared.drop(columns=["hospital", "diagnosis"]),
    method=cs.Consensus(warmup=2),
    rounds=8,
    target=(target.drop(columns="hospital"), "diagnosis"),
)
scores = result.history.pivot(index="round", columns="agent", values="accuracy_target")
alone = result.run.references["alone"].last_round().set_index("agent")["accuracy_target"]
print(pd.DataFrame({"alone": alone, "together": scores.iloc[-1]}).round(3))
