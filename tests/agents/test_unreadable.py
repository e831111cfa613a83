"""Rows that an agent cannot read are answered with a sentence, not with an error of a library."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import consilience as cs
from tests.test_sentences import SHARED, TARGET, TEXTS, X, Y, estimators, says

TABLE = pd.DataFrame(X, columns=["age", "weight", "height", "pulse"]).assign(
    pain=np.where(X[:, 1] > 0, "yes", "no"), ill=Y
)


NUMBERS = TABLE.drop(columns="pain")


def networks(rows=X, labels=Y, batched=True) -> list[cs.extend.Agent]:
    return [
        cs.TorchAgent(
            nn.Linear(4, 2),
            rows[s : s + 30],
            labels if isinstance(labels, str) else labels[s : s + 30],
            name,
            training=cs.Training(batched=batched),
        )
        for s, name in ((0, "a"), (30, "b"))
    ]


def one_by_one(rows=X, labels=Y) -> list[cs.extend.Agent]:
    return networks(rows, labels, batched=False)


def with_gap(value=np.nan, rows=SHARED) -> np.ndarray:
    rows = rows.copy()
    rows[3, 2] = rows[7, 1] = value
    return rows


@pytest.mark.parametrize("make", [estimators, networks, one_by_one])
def test_gaps(make):
    gap = r"the shared data: agent 'a': row 3 has no value in column 2 \(and 1 more row\), and L\w+ takes no gaps. Fill"
    says(make(), gap, with_gap())
    beyond = (
        r"agent 'a': row 3 has an infinite value in column 2 \(and 1 more row\). Correct it, or leave these rows out"
    )
    says(make(), beyond, with_gap(np.inf))
    says(make(), "the target data: agent 'a': row 3 has no value", target=(with_gap(rows=TARGET[0]), TARGET[1]))
    says(make(), "the own data of 'a': agent 'a': row 3 has", own={"a": (with_gap(rows=TARGET[0]), TARGET[1])})
    says(make(rows=with_gap(rows=X)), "agent 'a': .*row 3 has no value in column 2")


def test_gaps_in_a_table():
    patients = NUMBERS.drop(columns="ill")
    holes = patients[60:90].mask(np.arange(30)[:, None] == [[5, 7, 99, 99]])
    says(
        estimators(NUMBERS, "ill"),
        "the shared data: agent 'a': the column 'age' has no value in row 5, and LogisticRegression takes no gaps",
        holes,
    )


def test_models_that_take_gaps_still_do():
    agents = [
        cs.SklearnAgent(HistGradientBoostingClassifier(max_iter=3), X[s : s + 30], Y[s : s + 30], str(s))
        for s in (0, 30)
    ]
    cs.collaborate(agents, with_gap(), rounds=2, method=cs.Consensus(warmup=1), progress=False)


@pytest.mark.parametrize("make", [estimators, networks, one_by_one])
def test_another_width(make):
    sentence = "agent '[ab]': these rows have 3 values each, the agent's own 4"
    says(make(), f"the shared data: {sentence}", SHARED[:, :3])
    says(make(), f"the target data: {sentence}", target=(TARGET[0][:, :3], TARGET[1]))


@pytest.mark.parametrize("make", [estimators, networks, one_by_one])
def test_columns(make):
    rest = NUMBERS[60:90]
    says(make(NUMBERS, "ill"), "the shared data: agent 'a': the column 'ill' holds the labels. Leave it out", rest)
    patients = NUMBERS.drop(columns="ill")
    says(make(patients, NUMBERS["ill"]), "the column 'ill' holds the labels", rest)
    says(make(patients, Y), "the agent's own rows have no column 'ill'. Leave it out", rest)
    says(make(NUMBERS, "ill"), "no column 'age', which the agent's own rows have", rest.drop(columns=["ill", "age"]))


@pytest.mark.parametrize("make", [estimators, networks, one_by_one])
def test_columns_are_found_by_name_in_any_order(make):
    patients = NUMBERS.drop(columns="ill")
    short = {"rounds": 2, "method": cs.Consensus(warmup=1, lam=1.0), "progress": False}

    def predicted(order: list[str]) -> np.ndarray:
        torch.manual_seed(0)
        agents = make(patients, Y)
        cs.collaborate(agents, patients[60:90][order], **short)
        return np.stack([agent.predict(patients[90:][order]) for agent in agents])

    np.testing.assert_array_equal(predicted(list(patients)), predicted(list(patients)[::-1]))


def test_words_and_texts():
    words = (
        "agent 'a': the column 'pain' holds words \\('(no|yes)'\\), and LogisticRegression takes numbers. Put an enc"
    )
    says(estimators(TABLE, "ill"), words, TABLE[60:90].drop(columns="ill"))
    scaled = [
        cs.SklearnAgent(make_pipeline(StandardScaler(), LogisticRegression()), TABLE[s : s + 30], "ill", name)
        for s, name in ((0, "a"), (30, "b"))
    ]
    says(scaled, words, TABLE[60:90].drop(columns="ill"))
    says(estimators(TABLE.drop(columns="ill").to_numpy()), "the column 4 holds words", X[60:90])
    for rows in (TEXTS, pd.Series(TEXTS), np.array(TEXTS)):
        texts = "agent 'a': the rows are texts, and LogisticRegression takes numbers. Put a vectoriser before it"
        says(estimators(rows), texts, rows[60:90])


def test_an_error_that_is_not_understood_stays_what_it_is():
    class Broken(LogisticRegression):
        def fit(self, x, y, sample_weight=None):
            raise RuntimeError("a mistake of mine")

    agents = [cs.SklearnAgent(Broken(), X[:30], Y[:30], "a"), estimators()[1]]
    with pytest.raises(RuntimeError, match="a mistake of mine"):
        cs.collaborate(agents, SHARED, rounds=6, progress=False)
