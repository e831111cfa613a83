"""Models that take tables, texts or several arrays, and agents with a transform, are exported with what they need."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

import consilience as cs
from consilience.base.errors import ConsilienceError
from consilience.export.folder import export_agent, load_model

DRAW = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": np.where(DRAW.random(40) < 0.2, np.nan, DRAW.normal(60, 9, 40).round()),
        "pain": pd.Categorical(DRAW.choice(["none", "typical", "other"], 40)),
        "town": DRAW.choice(["Basel", "Zürich"], 40),
    }
)
ILL = np.where(DRAW.random(40) < 0.5, "ill", "healthy")
TEXTS = [f"{word} {number}" for number in range(5) for word in ("good film", "bad film", "fine story", "dull story")]
LIKED = ["yes", "no"] * 10


def columns() -> ColumnTransformer:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer(
        [("numbers", numbers, ["age"]), ("words", OneHotEncoder(handle_unknown="ignore"), ["pain", "town"])]
    )


def trained(agent: Any, rows: Any) -> Any:
    agent.train(rows, None, 0.0)
    return agent


def exported(agent: Any, rows: Any, folder: Path) -> Any:
    return load_model(export_agent(agent, folder, rows))


def test_a_table_by_column_name(tmp_path: Path) -> None:
    agent = trained(cs.SklearnAgent(make_pipeline(columns(), LogisticRegression()), TABLE, ILL, "a"), TABLE)
    model = exported(agent, TABLE, tmp_path / "m")
    assert model.classes == ("healthy", "ill")
    TABLE[["town", "pain", "age"]].to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_allclose(model.predict(pd.read_csv(tmp_path / "new.csv")), agent.predict(TABLE), atol=1e-6)
    with pytest.raises(ConsilienceError, match="no column 'pain'"):
        model.predict(TABLE[["age"]])
    with pytest.raises(ConsilienceError, match="takes a table with the columns age, pain, town"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ConsilienceError, match="column 'age' cannot be read as float64"):
        model.predict(TABLE.assign(age="old"))


def test_categories_are_those_of_training(tmp_path: Path) -> None:
    rows = TABLE[["age", "pain"]]
    estimator = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3, categorical_features="from_dtype")
    agent = trained(cs.SklearnAgent(estimator, rows, ILL, "a"), rows)
    model = exported(agent, rows, tmp_path / "m")
    few = rows[rows["pain"] == "typical"].astype({"pain": object})  # as a file would have them
    np.testing.assert_allclose(model.predict(few), agent.predict(rows[rows["pain"] == "typical"]), atol=1e-6)


def test_texts(tmp_path: Path) -> None:
    agent = trained(cs.SklearnAgent(make_pipeline(TfidfVectorizer(), LogisticRegression()), TEXTS, LIKED, "a"), TEXTS)
    model = exported(agent, TEXTS, tmp_path / "m")
    new = ["a good story", "dull"]
    np.testing.assert_allclose(model.predict(new), agent.predict(new), atol=1e-6)
    np.testing.assert_allclose(model.predict(pd.DataFrame({"text": new})), agent.predict(new), atol=1e-6)
    with pytest.raises(ConsilienceError, match="takes texts"):
        model.predict([1, 2])


def test_a_transform_of_scikit_learn_goes_with_the_model(tmp_path: Path) -> None:
    fitted = columns().fit(TABLE)
    agent = trained(cs.SklearnAgent(LogisticRegression(), TABLE, ILL, "a", transform=fitted.transform), TABLE)
    model = exported(agent, TABLE, tmp_path / "m")
    np.testing.assert_allclose(model.predict(TABLE), agent.predict(TABLE), atol=1e-6)
    assert "prepare-0.skops" in model.manifest.files


def ages(rows: pd.DataFrame) -> np.ndarray:
    return rows[["age"]].fillna(60).to_numpy(np.float32) / 100


def test_of_a_transform_that_is_a_function_the_file_to_ship_is_named(tmp_path: Path) -> None:
    agent = trained(cs.SklearnAgent(LogisticRegression(), TABLE, ILL, "a", transform=ages), TABLE)
    model = exported(agent, TABLE, tmp_path / "m")
    np.testing.assert_allclose(model.predict(ages(TABLE)), agent.predict(TABLE), atol=1e-6)
    sentence = "what the function `ages` of test_inputs.py makes of raw rows. A Python function cannot be exported"
    assert sentence in model.manifest.inputs.about and sentence in (tmp_path / "m" / "README.md").read_text()


class Embedded(nn.Module):
    """A network that takes tokens and a mask, and returns logits as Hugging Face models do."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

    def forward(self, tokens: Any, mask: Any) -> Any:
        return self.head((self.embedding(tokens) * mask[..., None]).sum(dim=1))


@pytest.mark.slow
def test_a_network_of_tokens_and_mask(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    rows = {"tokens": DRAW.integers(0, 9, (20, 5)), "mask": np.ones((20, 5), np.float32)}
    agent = trained(cs.TorchAgent(Embedded(), rows, np.arange(20) % 2, "a"), rows)
    model = exported(agent, rows, tmp_path / "m")
    few = {name: part[:7] for name, part in rows.items()}
    np.testing.assert_allclose(model.predict(few), agent.predict(few), atol=1e-6)
    with pytest.raises(ConsilienceError, match="a dict of arrays with the parts tokens, mask"):
        model.predict(rows["tokens"])
