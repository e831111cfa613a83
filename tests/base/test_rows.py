"""Rows of any kind: counted, taken, joined, told apart, and learned from."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch import nn

import consilience as cs
from consilience import ConsilienceError
from consilience.base.rows import labelled_rows
from tests.conftest import CLASSES, FEATURES, blobs
from tests.torch_options import torch_options

TABLE = pd.DataFrame(
    {
        "age": [50, 61, 47, 39],
        "pain": ["none", None, "typical", "none"],
        "kind": pd.Categorical(["a", "b", "a", "c"]),
        "seen": pd.to_datetime(["2024-01-01", "2024-02-01", None, "2024-03-01"]),
        "pressure": [1.5, np.nan, 2.0, 3.0],
    }
)


class Pairs(torch.utils.data.Dataset):
    """A torch Dataset of (x, y)."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, number):
        return torch.from_numpy(self.x[number]), int(self.y[number])


def hugging_face(columns):
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


def test_labels_may_be_a_column():
    rows, y = labelled_rows(TABLE, "pain", "a")
    assert "pain" not in rows.columns
    assert y.tolist()[0] == "none"
    rows, y = labelled_rows(hugging_face({"text": ["a", "b"], "label": [1, 0]}), "label", "a")
    assert rows.column_names == ["text"]
    assert y.tolist() == [1, 0]
    _, y = labelled_rows(Pairs(np.zeros((2, 1)), [1, 0]), None, "a")
    assert y.tolist() == [1, 0]
    with pytest.raises(ConsilienceError, match=r"in the column 'pian'\. The columns are age, pain"):
        labelled_rows(TABLE, "pian", "a")
    with pytest.raises(ConsilienceError, match="a has no labels"):
        labelled_rows(TABLE, None, "a")


SHORT = cs.Consensus(warmup=1)
TOKENS = {word: number for number, word in enumerate(["a", "b", "c", "d", "e", "f", "g", "h"])}


def learned(agents, shared, target, **options):
    """The history, after which every agent predicts."""
    result = cs.collaborate(agents, shared, rounds=3, method=SHORT, target=target, **options)
    assert result.history["accuracy_target"].notna().all()
    for agent in result.agents:
        f = agent.predict(target[0] if not isinstance(target[1], str) else labelled_rows(*target, "")[0])
        np.testing.assert_allclose(f.sum(axis=1), 1, atol=1e-5)
    return result


@pytest.mark.parametrize("kind", ["uint8", "int32", "bool", "float64", "tensor", "sparse", "torch dataset", "numbers"])
def test_rows_of_numbers_need_no_transform(kind):
    make = {
        "uint8": lambda x: np.clip(x * 20 + 100, 0, 255).astype(np.uint8),
        "int32": lambda x: (x * 100).astype(np.int32),
        "bool": lambda x: x > 0,
        "float64": lambda x: x.astype(np.float64),
        "tensor": torch.from_numpy,
        "sparse": sparse.csr_matrix,
        "torch dataset": lambda x: Pairs(x, np.zeros(len(x))),
        "numbers": lambda x: pd.DataFrame(x, columns=[f"c{n}" for n in range(FEATURES)]),
    }[kind]
    torch.manual_seed(0)
    (x, y), (new_x, new_y) = blobs(60, seed=1), blobs(50, seed=2)
    agents = [
        cs.TorchAgent(nn.Linear(FEATURES, CLASSES), make(x[:30]), y[:30], "net"),
        cs.SklearnAgent(LogisticRegression(max_iter=2000), make(x[30:]), y[30:], "logistic"),
    ]
    learned(agents, make(blobs(40, seed=3)[0]), (make(new_x), new_y))


def test_a_table_with_words_gaps_categories_and_dates_is_kept_for_the_estimator():
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["pain", "kind"]))
    seen = []

    class Watching(LogisticRegression):
        def fit(self, x, y, sample_weight=None):
            seen.append(x)
            return super().fit(x, y, sample_weight)

    y = np.array(["ill", "well", "ill", "well"])
    agents = [
        cs.SklearnAgent(make_pipeline(columns, LogisticRegression()), TABLE, y, "words"),
        cs.SklearnAgent(Watching(), TABLE.assign(label=y), "label", "age", transform=lambda rows: rows[["age"]]),
        cs.TorchAgent(nn.Linear(2, 2), TABLE, y, "net", transform=lambda rows: rows[["age", "pressure"]].fillna(0)),
    ]
    result = learned(agents, TABLE, (TABLE.assign(label=y), "label"))
    assert all(isinstance(x, pd.DataFrame) and list(x.columns) == ["age"] for x in seen[-1:])
    assert result.run.summary.classes == ["ill", "well"]
    with pytest.raises(ConsilienceError, match=r"agent 'net': a network takes numbers, and the table has words"):
        cs.TorchAgent(nn.Linear(5, 2), TABLE, y, "net")


def test_texts_with_vectorisers_a_tokeniser_and_a_model_of_hugging_face():
    transformers = pytest.importorskip("transformers")
    draw = np.random.default_rng(0)
    words = {"sports": list("abcd"), "politics": list("defg")}
    labels = draw.choice(list(words), 80).tolist()
    texts = [" ".join(draw.choice(words[label], 6)) for label in labels]

    def tokens(rows):
        ids = torch.tensor([[TOKENS[word] for word in text.split()] for text in rows])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, num_labels=2
    )
    bert = transformers.BertForSequenceClassification(config)
    vectoriser = TfidfVectorizer(token_pattern="[a-g]")
    agents = [
        cs.SklearnAgent(make_pipeline(vectoriser, LogisticRegression()), texts[:20], labels[:20], "tfidf"),
        cs.SklearnAgent(
            MultinomialNB(), texts[20:40], labels[20:40], "bayes", transform=vectoriser.fit(texts).transform
        ),
        cs.TorchAgent(bert, texts[40:50], labels[40:50], "bert", transform=tokens, training=cs.Training(epochs=1)),
    ]
    target = (texts[60:], labels[60:])
    result = learned(agents, texts[50:60], target)
    assert result.run.summary.classes == ["politics", "sports"]
    as_dict = cs.TorchAgent(bert, tokens(texts[:4]), labels[:4], "dict")
    np.testing.assert_allclose(as_dict.predict(tokens(texts[60:])), agents[2].predict(texts[60:]), atol=1e-6)
    rows = hugging_face({"input_ids": tokens(texts)["input_ids"].tolist()})
    np.testing.assert_allclose(as_dict.predict(rows), as_dict.predict(tokens(texts)), atol=1e-6)
    with pytest.raises(ConsilienceError, match=r"agent 'x': a network takes numbers, not texts"):
        cs.TorchAgent(bert, texts, labels, "x")
    with pytest.raises(ConsilienceError, match=r"agent 'x': an estimator takes no dict of rows"):
        cs.SklearnAgent(LogisticRegression(), tokens(texts), labels, "x")


def test_a_transform_reads_rows_once_and_augment_draws_from_the_agents_stream():
    x, y = blobs(30, seed=1)
    shared = blobs(20, seed=2)[0]
    read, batches = [], []

    def transform(rows):
        read.append(len(rows))
        return rows[:, :2]

    def augment(batch):
        noisy = batch + 0.1 * torch.randn(batch.shape)
        batches.append(noisy)
        return noisy

    def trained(**options):
        torch.manual_seed(0)
        agent = cs.TorchAgent(nn.Linear(2, 3), x, y, "a", transform=transform, **torch_options(epochs=1, **options))
        for _ in range(3):
            agent.train(shared, np.full((20, 3), 1 / 3, np.float32), 0.5)
        return agent

    agent = trained(augment=augment)
    assert read == [30, 20]
    assert [len(batch) for batch in batches] == [30, 20] * 3, "private and shared batches"
    assert not torch.equal(batches[0].sum(0), batches[2].sum(0))
    np.testing.assert_array_equal(trained(augment=augment).predict(shared), agent.predict(shared))
    assert not np.array_equal(trained().predict(shared), agent.predict(shared))
    with pytest.raises(ConsilienceError, match="its transform made 29 rows of 30"):
        cs.TorchAgent(nn.Linear(2, 3), x, y, "a", transform=lambda rows: rows[1:, :2])
    with pytest.raises(ConsilienceError, match=r"agent 'a': its transform fails on 30 rows \(ndarray\) with KeyError"):
        cs.TorchAgent(nn.Linear(2, 3), x, y, "a", transform=lambda rows: {}["age"])
    with pytest.raises(ConsilienceError, match=r"agent 'a': the model cannot read a sample \(\(6,\) float32\)"):
        cs.TorchAgent(nn.Linear(2, 3), x, y, "a")
