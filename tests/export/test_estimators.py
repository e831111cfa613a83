"""Estimators in a model folder: edited numbers and readers of files are refused before they are used."""

import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

from consilience.base.errors import ConsilienceError
from consilience.export.folder import load_model
from tests.export.conftest import NEW, X, Y, reseal, with_estimator


def edited(data: bytes, change: Callable[[str, np.ndarray], np.ndarray]) -> bytes:
    """A skops file in which arrays are others: `change` gets each with its name."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(".npy"):
                array = np.load(BytesIO(content))
                buffer = BytesIO()
                np.save(buffer, change(name, array))
                content = buffer.getvalue()
            new.writestr(name, content)
    return out.getvalue()


def nodes_with(field: str, value: int, row: int = 0) -> Callable[[str, np.ndarray], np.ndarray]:
    """Trees with another number in one field of one node."""

    def change(name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.names and field in array.dtype.names:
            array = array.copy()
            array[field][row] = value
            if field in ("left", "left_child") and value == 0:
                array["right" if field == "left" else "right_child"][row] = 0
        return array

    return change


HIST = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=3)


FOREST = RandomForestClassifier(3)


BOOSTED = GradientBoostingClassifier(n_estimators=2)


@pytest.mark.parametrize(
    ("estimator", "field", "value"),
    [
        (HIST, "left", 4_000_000_000),
        (HIST, "feature_idx", 1_000_000_000),
        (HIST, "feature_idx", -1_000_000_000),
        (HIST, "left", 0),
        (FOREST, "left_child", 1_000_000_000),
        (FOREST, "feature", 1_000_000_000),
        (FOREST, "feature", -1_000_000_000),
        (FOREST, "left_child", 0),
        (BOOSTED, "left_child", 1_000_000_000),
        (BOOSTED, "feature", 1_000_000_000),
        (BOOSTED, "left_child", 0),
    ],
)
def test_trees_with_edited_numbers_are_refused_before_they_are_used(
    trained: dict[str, Any], tmp_path: Path, estimator: Any, field: str, value: int
) -> None:
    import skops.io
    from sklearn.base import clone

    folder = with_estimator(trained, tmp_path / "m", clone(estimator).fit(X, Y))
    data = (folder / "estimator-0.skops").read_bytes()
    assert load_model(folder).predict(NEW).shape == (30, 3), "as it was it predicts"
    assert skops.io.get_untrusted_types(data=data)
    (folder / "estimator-0.skops").write_bytes(edited(data, nodes_with(field, value)))
    reseal(folder)
    with pytest.raises(ConsilienceError, match=r"a model that scikit-learn made|features that do not exist"):
        load_model(folder).predict(NEW)  # without checks the process dies here, or hangs


def reading_files() -> Any:
    """Estimators that make a row's text the name of a file, and its content their features."""
    path = SimpleImputer(strategy="constant", fill_value="keys/signing.key", missing_values="x")
    return {
        "count": lambda: CountVectorizer(input="filename", analyzer="char"),
        "tfidf": lambda: TfidfVectorizer(input="file"),
        "hashed": lambda: HashingVectorizer(input="filename"),
        "in-columns": lambda: ColumnTransformer([("p", path, [0]), ("t", CountVectorizer(input="filename"), 0)]),
    }


@pytest.mark.parametrize("kind", ["count", "tfidf", "hashed", "in-columns"])
def test_a_vectoriser_that_reads_files_is_refused(trained: dict[str, Any], tmp_path: Path, kind: str) -> None:
    model = make_pipeline(reading_files()[kind](), LogisticRegression())
    folder = with_estimator(trained, tmp_path / "m", model)
    with pytest.raises(ConsilienceError, match="texts would be read from files"):
        load_model(folder)


def _vocabulary() -> Any:
    words = CountVectorizer().fit(["one two", "three"])
    words.vocabulary_["two"] = 2**30
    return words


def _one_hot() -> Any:
    encoder = OneHotEncoder(sparse_output=False).fit([["a"], ["b"], ["c"]])
    encoder._n_features_outs = [1]
    return encoder


def _support_vectors() -> Any:
    machine = SVC().fit(X, Y)
    machine._n_support = machine._n_support + 10_000
    return machine


def _sparse() -> Any:
    regression = LogisticRegression().fit(X, Y).sparsify()
    regression.coef_.indices[:] = 2**30
    return regression


def _neighbours() -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(3, algorithm="brute").fit(X, Y)
    model._y = model._y + 2**30
    return model


def _other_features() -> Any:
    forest = RandomForestClassifier(2).fit(np.tile(X, 3), Y)
    forest.n_features_in_ = 6
    return forest


def _called() -> Any:
    from functools import partial

    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(partial(np.sqrt))


@pytest.mark.parametrize(
    "make", [_vocabulary, _one_hot, _support_vectors, _sparse, _neighbours, _other_features, _called]
)
def test_numbers_that_compiled_code_would_follow_are_refused(
    trained: dict[str, Any], tmp_path: Path, make: Callable[[], Any]
) -> None:
    folder = with_estimator(trained, tmp_path / "m", make())
    with pytest.raises(ConsilienceError, match=r"estimator-0\.skops"):
        load_model(folder)


@pytest.mark.parametrize("args", [(1, 1, 10**6), (10**12, 1, 1)])
def test_a_tree_is_checked_before_it_is_made(trained: dict[str, Any], tmp_path: Path, args: tuple[int, ...]) -> None:
    """What a tree is called with goes straight into compiled code."""
    folder = with_estimator(trained, tmp_path / "m", RandomForestClassifier(1).fit(X, Y))
    path, out = folder / "estimator-0.skops", BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name == "schema.json":
                schema = json.loads(text)
                for node in _trees(schema):
                    numbers = node["__reduce__"]["args"]["content"]
                    for place in (0, 2):
                        numbers[place] |= {"content": str(args[place]), "__id__": -place - 1}
                text = json.dumps(schema).encode()
            new.writestr(name, text)
    path.write_bytes(out.getvalue())
    reseal(folder)
    with pytest.raises(ConsilienceError, match="is not a model that scikit-learn made"):
        load_model(folder)


def _trees(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return [tree for part in schema for tree in _trees(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if schema.get("__loader__") == "TreeNode" else []
    return own + [tree for part in schema.values() for tree in _trees(part)]
