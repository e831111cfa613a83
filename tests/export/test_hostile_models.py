"""Model folders that somebody made to do harm, with right checksums: refused, or ended with a sentence."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

import consilience as cs
from consilience.base.errors import ConsilienceError
from consilience.export.folder import export_agent, load_model
from consilience.export.manifest import checksum
from tests.export.conftest import NEW, X, Y

SECRET = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6MDEyMzQ1\n"


def reseal(folder: Path, change: Callable[[dict[str, Any]], None] | None = None) -> None:
    """The checksums of a folder made right again, after `change` of its manifest."""
    path = folder / "model.json"
    table = json.loads(path.read_text())
    if change:
        change(table)
    for name in table["files"]:
        if (folder / name).is_file():
            table["files"][name] = sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(table | {"checksum": checksum(table)}))


def with_estimator(trained: dict[str, Any], folder: Path, estimator: Any) -> Path:
    """An exported model in which somebody has put another estimator."""
    import skops.io

    export_agent(trained["pipeline"], folder, NEW)
    (folder / "estimator-0.skops").write_bytes(skops.io.dumps(estimator))
    reseal(folder)
    return folder


def predict(folder: Path, model: Path, samples: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command, typed in `folder`."""
    command = [sys.executable, "-m", "consilience", "predict", str(samples), "--model", str(model), *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of a site, with its signing key."""
    (tmp_path / "site" / "keys").mkdir(parents=True)
    (tmp_path / "site" / "keys" / "signing.key").write_text(SECRET)
    pd.DataFrame(NEW[:4]).to_csv(tmp_path / "site" / "new.csv", index=False)
    return tmp_path / "site"


def onnx_model(where: str, size: int) -> Any:
    """A network that gives the bytes of a file as probabilities. `where` says where it hides them."""
    import onnx
    from onnx import TensorProto, helper

    stolen = TensorProto(name="stolen", data_type=TensorProto.UINT8, dims=[size])
    stolen.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "keys/signing.key", "offset": "0", "length": str(size)}.items():
        stolen.external_data.add(key=key, value=value)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["samples", 6])
    out = helper.make_tensor_value_info("predictions", TensorProto.FLOAT, ["samples", 3])
    constant = helper.make_node("Constant", [], ["stolen"], value=stolen)
    tail = [
        helper.make_node("Cast", ["stolen"], ["bytes"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["bytes"], ["mean"], keepdims=1),
        helper.make_node("ReduceSum", ["x", "axis"], ["row"], keepdims=1),
        helper.make_node("Add", ["row", "mean"], ["both"]),
        helper.make_node("Concat", ["both", "both", "both"], ["logits"], axis=1),
        helper.make_node("Softmax", ["logits"], ["predictions"], axis=1),
    ]
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    domains, functions = [helper.make_opsetid("", 18)], []
    if where == "initializer":
        graph = helper.make_graph(tail, "g", [x], [out], [stolen, axis])
    elif where == "constant":
        graph = helper.make_graph([constant, *tail], "g", [x], [out], [axis])
    elif where == "subgraph":
        inner = helper.make_tensor_value_info("stolen", TensorProto.UINT8, [size])
        branch = helper.make_graph([constant], "branch", [], [inner])
        yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
        choice = helper.make_node("If", ["yes"], ["stolen"], then_branch=branch, else_branch=branch)
        graph = helper.make_graph([choice, *tail], "g", [x], [out], [axis, yes])
    elif where == "function":
        functions = [helper.make_function("own", "Steal", [], ["stolen"], [constant], domains)]
        domains = [*domains, helper.make_opsetid("own", 1)]
        call = helper.make_node("Steal", [], ["stolen"], domain="own")
        graph = helper.make_graph([call, *tail], "g", [x], [out], [axis])
    else:
        places = helper.make_tensor("places", TensorProto.INT64, [size], list(range(size)))
        sparse = onnx.SparseTensorProto(values=stolen, indices=places, dims=[size])
        graph = helper.make_graph(tail, "g", [x], [out], [axis], sparse_initializer=[sparse])
    return helper.make_model(graph, opset_imports=domains, functions=functions, ir_version=9)


@pytest.mark.parametrize("where", ["initializer", "constant", "subgraph", "function", "sparse"])
def test_a_model_cannot_read_a_file_of_the_folder_it_is_used_in(
    own_network_folder: Path, site: Path, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(own_network_folder, tmp_path / "model")
    data = onnx_model(where, len(SECRET)).SerializeToString()
    (tmp_path / "model" / "model.onnx").write_bytes(data)
    reseal(tmp_path / "model")
    monkeypatch.chdir(site)
    with pytest.raises(ConsilienceError, match=r"model\.onnx .* outside of it"):
        load_model(tmp_path / "model").predict(NEW[:4])


def test_predict_in_the_folder_of_a_site_does_not_write_its_key(
    own_network_folder: Path, site: Path, tmp_path: Path
) -> None:
    shutil.copytree(own_network_folder, tmp_path / "model")
    (tmp_path / "model" / "model.onnx").write_bytes(onnx_model("initializer", len(SECRET)).SerializeToString())
    reseal(tmp_path / "model")
    done = predict(site, tmp_path / "model", site / "new.csv")
    assert done.returncode == 2 and "outside of it" in " ".join(done.stderr.split())
    assert not (site / "predictions.csv").exists()


@pytest.fixture(scope="module")
def own_network_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported network that predicts through ONNX."""
    from torch import nn

    folder = tmp_path_factory.mktemp("network") / "model"
    agent = cs.TorchAgent(nn.Sequential(nn.Linear(6, 3)), X, Y, "own-network")
    agent.train(X, None, 0.0)
    return export_agent(agent, folder, NEW)


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


def test_a_file_that_unpacks_to_too_much_is_refused(trained: dict[str, Any], tmp_path: Path) -> None:
    folder, out = with_estimator(trained, tmp_path / "m", LogisticRegression().fit(X, Y)), BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("schema.json", b" " * 200_000_000)
    (folder / "estimator-0.skops").write_bytes(out.getvalue())
    reseal(folder)
    with pytest.raises(ConsilienceError, match="would be unpacked"):
        load_model(folder)


def xgboost_with(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        table = json.loads(data)
        change(table["learner"])
        return json.dumps(table).encode()

    return changed


def _tree(learner: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = learner["gradient_booster"]["model"]["trees"][0]
    return tree


XGBOOST: dict[str, Callable[[dict[str, Any]], Any]] = {
    "child": lambda learner: _tree(learner)["left_children"].__setitem__(0, 10**9),
    "child below": lambda learner: _tree(learner)["left_children"].__setitem__(0, -(10**9)),
    "circle": lambda learner: _tree(learner).update(left_children=[0] * 7, right_children=[0] * 7),
    "feature": lambda learner: _tree(learner)["split_indices"].__setitem__(0, 10**8),
    "weights": lambda learner: _tree(learner)["base_weights"].pop(),
    "class": lambda learner: learner["gradient_booster"]["model"]["tree_info"].__setitem__(0, 10**8),
    "trees": lambda learner: learner["gradient_booster"]["model"]["trees"].pop(),
    "rounds": lambda learner: learner["gradient_booster"]["model"]["iteration_indptr"].__setitem__(-1, 10**8),
    "features": lambda learner: learner["learner_model_param"].update(num_feature="2"),
    "classes": lambda learner: learner["learner_model_param"].update(num_class="300"),
    "no classes": lambda learner: learner["objective"]["softmax_multiclass_param"].update(num_class="0"),
    "categories": lambda learner: _tree(learner).update(split_type=[1] * 7),
    "text": lambda learner: _tree(learner).update(tree_param=[]),
}


@pytest.mark.parametrize("kind", XGBOOST)
def test_files_of_xgboost_with_edited_numbers_are_refused(trained: dict[str, Any], tmp_path: Path, kind: str) -> None:
    folder = export_agent(trained["xgboost"], tmp_path / "m", NEW)
    path = folder / "estimator-0.json"
    path.write_bytes(xgboost_with(XGBOOST[kind])(path.read_bytes()))
    reseal(folder)
    with pytest.raises(ConsilienceError, match="is not a model that XGBoost made"):
        load_model(folder).predict(NEW)


LIGHTGBM: dict[str, tuple[str, str]] = {
    "child": (r"left_child=\S+", "left_child=1000000000"),
    "circle": (r"left_child=\S+", "left_child=0"),
    "leaf": (r"right_child=\S+", "right_child=-1000000000"),
    "feature": (r"split_feature=\S+", "split_feature=100000000"),
    "fewer": (r"leaf_value=\S+ ", "leaf_value="),
    "leaves": (r"num_leaves=\d+", "num_leaves=100000"),
    "categories": (r"num_cat=0", "num_cat=100000"),
    "category": (r"decision_type=\d+", "decision_type=1"),
    "trees": (r"num_tree_per_iteration=3", "num_tree_per_iteration=2"),
    "classes": (r"num_class=3", "num_class=300"),
    "features": (r"max_feature_idx=5", "max_feature_idx=500"),
    "linear": (r"is_linear=0", "is_linear=1"),
}


@pytest.mark.parametrize("kind", LIGHTGBM)
def test_files_of_lightgbm_with_edited_numbers_are_refused(trained: dict[str, Any], tmp_path: Path, kind: str) -> None:
    folder = export_agent(trained["lightgbm"], tmp_path / "m", NEW)
    path = folder / "estimator-0.txt"
    edited_text = re.sub(*LIGHTGBM[kind], path.read_text(), count=1)
    assert edited_text != path.read_text()
    path.write_text(edited_text)
    reseal(folder)
    with pytest.raises(ConsilienceError, match="is not a model that LightGBM made"):
        load_model(folder).predict(NEW)


def test_lightgbm_reads_its_trees_where_they_were_checked(trained: dict[str, Any], tmp_path: Path) -> None:
    """Sizes of trees would let it read them from elsewhere in the file."""
    folder = export_agent(trained["lightgbm"], tmp_path / "m", NEW)
    before = load_model(folder).predict(NEW)
    path = folder / "estimator-0.txt"
    path.write_text(re.sub(r"tree_sizes=\d+", "tree_sizes=99999999", path.read_text()))
    reseal(folder)
    np.testing.assert_array_equal(load_model(folder).predict(NEW), before)
