"""Mistakes that a first hour in a notebook brings are answered with a sentence, not with an error of a library."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from torch import nn

import consilience as cs

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(120, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
TEXTS = ["a good day" if label else "a bad night" for label in Y]
SHARED, TARGET = X[60:90], (X[90:], Y[90:])


def estimators(rows=X, labels=Y) -> list[cs.extend.Agent]:
    kinds = {"a": LogisticRegression(), "b": RandomForestClassifier(5)}
    return [
        cs.SklearnAgent(kind, rows[s : s + 30], labels if isinstance(labels, str) else labels[s : s + 30], name)
        for s, (name, kind) in zip((0, 30), kinds.items(), strict=True)
    ]


def says(agents, sentence: str, shared=SHARED, **more) -> None:
    arguments = {"rounds": 2, "method": cs.Consensus(warmup=1), "progress": False} | more
    with pytest.raises(cs.ConsilienceError, match=sentence):
        cs.collaborate(agents, shared, **arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": TARGET[::-1]}, r"target is a pair in the wrong order. Give the rows first: target=\(x, y\)"),
        ({"target": TARGET[0]}, "target is not a pair"),
        ({"target": (*TARGET, 3)}, "target is not a pair"),
        ({"target": 5}, "target is not a pair"),
        ({"own": {"a": TARGET[0]}}, r"own\['a'\] is not a pair"),
        ({"own": {"a": TARGET[::-1]}}, r"own\['a'\] is a pair in the wrong order"),
        ({"own": TARGET}, "own must say whose data they are"),
        ({"target": (TARGET[0], np.where(np.arange(30) == 4, np.nan, 1.0))}, r"target data: 1 labels are missing \(fi"),
        ({"target": (TARGET[0], X[90:, 0])}, "the target data: labels must be class numbers"),
        ({"rounds": "five"}, "rounds is 'five'; it must be a whole number"),
        ({"rounds": 2.5}, "rounds is 2.5; it must be a whole number"),
        ({"rounds": None}, "rounds is None; it must be a whole number"),
        ({"shared": (SHARED, Y[60:90])}, "shared is a pair. Give the rows alone"),
    ],
)
def test_arguments(arguments, sentence):
    says(estimators(), sentence, **arguments)


def test_rows_of_texts_with_a_table_of_labels_are_a_pair():
    labels = np.stack([Y, 1 - Y], axis=1)
    kinds = [make_pipeline(TfidfVectorizer(), LogisticRegression()) for _ in range(2)]
    agents = [cs.SklearnAgent(k, TEXTS[s : s + 30], labels[s : s + 30]) for s, k in zip((0, 30), kinds, strict=True)]
    short = {"rounds": 2, "method": cs.Consensus(warmup=1), "progress": False}
    cs.collaborate(agents, TEXTS[60:90], target=(TEXTS[90:], labels[90:]), **short)


def test_agents_are_a_list():
    one, two = estimators()
    says({"a": one, "b": two}, "agents is a dict; it must be a list of agents")
    says(one, "agents is a SklearnAgent; it must be a list of agents")


@pytest.mark.parametrize("gap", [np.nan, None, pd.NA])
def test_labels_that_are_missing(gap):
    labels = pd.Series(Y).astype(object)
    labels[3] = gap
    sentence = r"agent 'a': 1 labels are missing \(first: row 3\). Remove those samples."
    with pytest.raises(cs.ConsilienceError, match=sentence):
        cs.SklearnAgent(LogisticRegression(), X, labels, "a")
    with pytest.raises(cs.ConsilienceError, match=sentence):
        cs.TorchAgent(nn.Linear(4, 2), X, labels, "a")
    if gap is np.nan:
        with pytest.raises(cs.ConsilienceError, match=sentence):
            cs.SklearnAgent(LinearRegression(), X, labels.astype(float), "a")


def test_devices():
    with pytest.raises(cs.ConsilienceError, match="agent 'a': device is 'gpu'; use cpu, cuda"):
        cs.TorchAgent(nn.Linear(4, 2), X, Y, "a", device="gpu")
    with pytest.raises(cs.ConsilienceError, match="its model is on the meta device, which holds no weights"):
        cs.TorchAgent(nn.Linear(4, 2, device="meta"), X, Y, "a")
    with pytest.raises(cs.ConsilienceError, match="'meta' cannot be used here"):
        cs.TorchAgent(nn.Linear(4, 2), X, Y, "a", device="meta")
    if not torch.cuda.is_available():
        with pytest.raises(cs.ConsilienceError, match=r"'cuda' cannot be used here \(.*\). Use device='cpu'"):
            cs.TorchAgent(nn.Linear(4, 2), X, Y, "a", device="cuda")


def test_a_search_with_more_folds_than_rows():
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=5)
    agents = [cs.SklearnAgent(search, X[s : s + 4], [0, 1, 0, 1], name) for s, name in ((0, "a"), (4, "b"))]
    says(agents, "agent 'a': GridSearchCV splits its 4 rows into more parts .* Use fewer folds, such as cv=2")
