"""Mistakes that a first hour in a notebook brings are answered with a sentence, not with an error of a library."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import consilience as cs

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(120, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
TABLE = pd.DataFrame(X, columns=["age", "weight", "height", "pulse"]).assign(
    pain=np.where(X[:, 1] > 0, "yes", "no"), ill=Y
)
NUMBERS = TABLE.drop(columns="pain")
TEXTS = ["a good day" if label else "a bad night" for label in Y]
SHARED, TARGET = X[60:90], (X[90:], Y[90:])


def estimators(rows=X, labels=Y) -> list[cs.extend.Agent]:
    kinds = {"a": LogisticRegression(), "b": RandomForestClassifier(5)}
    return [
        cs.SklearnAgent(kind, rows[s : s + 30], labels if isinstance(labels, str) else labels[s : s + 30], name)
        for s, (name, kind) in zip((0, 30), kinds.items(), strict=True)
    ]


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


def says(agents, sentence: str, shared=SHARED, **more) -> None:
    arguments = {"rounds": 2, "method": cs.Consensus(warmup=1), "progress": False} | more
    with pytest.raises(cs.ConsilienceError, match=sentence):
        cs.collaborate(agents, shared, **arguments)


@pytest.mark.parametrize("make", [estimators, networks, one_by_one])
def test_gaps(make):
    gap = r"the shared data: agent 'a': row 3 has no value in column 2 \(and 1 more row\), and L\w+ takes no gaps. Fill"
    says(make(), gap, with_gap())
    says(make(), "the shared data: agent 'a': row 3 has an infinite value in column 2", with_gap(np.inf))
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
        (
            {"target": (TARGET[0], np.where(np.arange(30) == 4, np.nan, 1.0))},
            r"target data: the label of row 4 is missing",
        ),
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
    sentence = r"agent 'a': the label of row 3 is missing. Remove that sample."
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


SENTENCE = "agent 'a': its model returns probabilities .* Leave out the softmax at its end"


def test_a_network_that_ends_in_softmax_is_refused():
    with pytest.raises(cs.ConsilienceError, match=SENTENCE):
        cs.TorchAgent(nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1)), X, Y, "a")


def test_one_whose_rows_are_all_the_same_at_first_is_refused_when_they_differ():
    layer = nn.Linear(4, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    agent = cs.TorchAgent(nn.Sequential(layer, nn.Softmax(dim=1)), X, Y, "a")
    agent.train(SHARED, None, 0.0)
    with pytest.raises(cs.ConsilienceError, match=SENTENCE):
        agent.predict(SHARED)


class Fixed(nn.Module):
    """Returns the first columns of its input."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs, self.scale = outputs, nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x[:, : self.outputs] * self.scale


@pytest.mark.parametrize(
    "logits",
    [
        np.where(np.arange(120)[:, None] == 119, [[0.7, 0.31]], [[0.7, 0.3]]),  # one row does not sum to one
        np.where(np.arange(120)[:, None] == 119, [[1.1, -0.1]], [[0.7, 0.3]]),  # one row is negative
        np.tile([[0.5, 0.5]], (120, 1)),  # a model that has learned nothing
        np.abs(X[:, :2]),
    ],
)
def test_logits_that_only_look_like_probabilities_are_not_refused(logits):
    agent = cs.TorchAgent(Fixed(2), logits.astype(np.float32), Y, "a")
    assert agent.predict(logits.astype(np.float32)).shape == (120, 2)


def test_values_of_other_tasks_may_sum_to_one():
    values = np.random.default_rng(0).dirichlet(np.ones(2), 120).astype(np.float32)
    agent = cs.TorchAgent(Fixed(2), values, values, "a", task="regression")
    np.testing.assert_allclose(agent.predict(values), values)
    cs.TorchAgent(Fixed(2), values, np.stack([Y, Y], axis=1), "a", task="multilabel")
