"""A folder predicts as the agent does, in another process and without its data; one that was changed is refused."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from torch import nn

import consilience as cs
from consilience.base.errors import ConsilienceError
from consilience.export.folder import Facts, copy_model, export_agent, load_model
from consilience.export.inputs import Scale
from consilience.export.manifest import checksum, read_manifest
from tests.export.conftest import NEW, X, Y

ELSEWHERE = """
import sys, numpy as np, consilience as cs
from pathlib import Path
here = Path(sys.argv[1])
x = np.load(here / "x.npy")
found = {path.name: cs.load_model(path).predict(x) for path in (here / "models").iterdir()}
np.savez(here / "found.npz", **found)
"""


@pytest.fixture(scope="session")
def folders(trained: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported models of all agents, and nothing else. The network of one's own is there as ONNX."""
    home = tmp_path_factory.mktemp("export") / "models"
    for name, agent in trained.items():
        export_agent(agent, home / name, NEW, Facts(scores={"accuracy_own": 0.5}), onnx=False)
    return home


@pytest.fixture(scope="session")
def own_network(folders: Path) -> Any:
    """An agent with a network that only ONNX can hold, exported beside the others."""
    network = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3))
    agent = cs.TorchAgent(network, X, Y, "own-network")
    agent.train(X, None, 0.0)
    export_agent(agent, folders / "own-network", NEW)
    return agent


def test_another_process_without_training_data_predicts_the_same(
    trained: dict[str, Any], own_network: Any, folders: Path, tmp_path: Path
) -> None:
    shutil.copytree(folders, tmp_path / "models")
    np.save(tmp_path / "x.npy", NEW)
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE)
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, cwd=tmp_path, timeout=120)
    with np.load(tmp_path / "found.npz") as found:
        assert set(found) == {*trained, "own-network"}
        for name, agent in (trained | {"own-network": own_network}).items():
            np.testing.assert_allclose(found[name], agent.predict(NEW), rtol=0, atol=1e-6, err_msg=name)


def test_the_onnx_file_alone_gives_probabilities(own_network: Any, folders: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(folders / "own-network" / "model.onnx")
    [found] = session.run(["predictions"], {"x": NEW[:7]})
    np.testing.assert_allclose(found, own_network.predict(NEW[:7]), rtol=0, atol=1e-6)
    assert (folders / "own-network" / "weights.safetensors").is_file()


@pytest.mark.slow
def test_a_copy_of_a_built_in_network_is_as_good(trained: dict[str, Any], folders: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    copy_model(folders / "mlp", tmp_path / "copy")
    assert (tmp_path / "copy" / "model.onnx").is_file()
    np.testing.assert_array_equal(load_model(tmp_path / "copy").predict(NEW), trained["mlp"].predict(NEW))


def test_the_fitted_objects_are_there(trained: dict[str, Any]) -> None:
    np.testing.assert_allclose(
        trained["forest"].estimator.predict_proba(NEW), trained["forest"].predict(NEW), atol=1e-6
    )
    assert len(trained["labels"].estimator) == 2 and trained["one-class"].estimator is None
    assert isinstance(trained["mlp"].model, nn.Module)


def test_the_card_says_what_the_model_is(folders: Path) -> None:
    card = (folders / "forest" / "README.md").read_text()
    for words in ("# forest: RandomForestClassifier", "| accuracy | 0.500 |", "| private training samples | 40 |"):
        assert words in card
    manifest = read_manifest(folders / "forest")
    assert manifest.training["private_data"] in card and manifest.versions["scikit-learn"] in card
    assert "XGB" in (folders / "xgboost" / "README.md").read_text()


@pytest.mark.parametrize("name", ["forest", "mlp", "xgboost", "lightgbm-two"])
def test_changed_bytes_are_refused(folders: Path, tmp_path: Path, name: str) -> None:
    for path in sorted((folders / name).glob("[!R]*")):
        copy = tmp_path / path.name
        shutil.copytree(folders / name, copy)
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        (copy / path.name).write_bytes(data)
        with pytest.raises(ConsilienceError, match=r"changed after the export|cannot be read"):
            load_model(copy)


def test_a_changed_class_name_is_refused(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "forest", tmp_path / "copy")
    path = tmp_path / "copy" / "model.json"
    table = json.loads(path.read_text())
    table["classes"] = ["ill", "healthy", "dead"]
    path.write_text(json.dumps(table))
    with pytest.raises(ConsilienceError, match="changed after the export"):
        load_model(tmp_path / "copy")


class Foreign(ClassifierMixin, BaseEstimator):
    """Not a class of scikit-learn."""

    def fit(self, x: Any, y: Any) -> "Foreign":
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x: Any) -> np.ndarray:
        return np.full((len(x), len(self.classes_)), 1 / len(self.classes_))

    def __setstate__(self, state: Any) -> None:
        raise SystemExit("this ran")


def test_a_foreign_type_is_refused_before_anything_is_made(folders: Path, tmp_path: Path) -> None:
    """Whoever changes the file can change the checksums, too."""
    import skops.io

    shutil.copytree(folders / "forest", tmp_path / "copy")
    data = skops.io.dumps(Foreign().fit(X, Y))
    (tmp_path / "copy" / "estimator-0.skops").write_bytes(data)
    manifest = read_manifest(folders / "forest")
    changed = replace(manifest, files={"estimator-0.skops": sha256(data).hexdigest()})
    (tmp_path / "copy" / "model.json").write_text(changed.to_json())
    with pytest.raises(ConsilienceError, match=r"test_folder\.Foreign, which is not known to be harmless"):
        load_model(tmp_path / "copy")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("parts", [{"role": "estimator", "form": "skops", "file": "../estimator.skops"}], "one of these"),
        ("parts", [{"role": "estimator", "form": "pickle", "file": "e.pkl"}], "one of scale, table, backbone"),
        ("format", 2, "later version"),
        ("evil", 1, "unknown setting 'evil'"),
        ("outputs", "three", "a whole number"),
    ],
)
def test_a_manifest_is_read_strictly(folders: Path, tmp_path: Path, key: str, value: Any, message: str) -> None:
    shutil.copytree(folders / "forest", tmp_path / "copy")
    path = tmp_path / "copy" / "model.json"
    table = json.loads(path.read_text()) | {key: value}
    path.write_text(json.dumps(table | {"checksum": checksum(table)}))
    with pytest.raises(ConsilienceError, match=message):
        load_model(tmp_path / "copy")


def test_what_cannot_be_exported_is_said(trained: dict[str, Any], tmp_path: Path) -> None:
    foreign = cs.SklearnAgent(Foreign(), X, Y, "a")
    with pytest.raises(ConsilienceError, match="Foreign, which cannot be stored safely"):
        export_agent(foreign, tmp_path / "a", NEW)
    with pytest.raises(ConsilienceError, match="is of a kind whose model cannot be exported"):
        export_agent(cs.extend.BaseAgent(X, Y, "b"), tmp_path / "b", NEW)
    with pytest.raises(ConsilienceError, match="Python function, which cannot be exported safely"):
        export_agent(trained["forest"], tmp_path / "c", NEW, prepare=[lambda x: x])
    assert not list(tmp_path.iterdir()), "nothing is left behind"
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mine").touch()
    with pytest.raises(ConsilienceError, match="already holds something"):
        export_agent(trained["forest"], tmp_path / "d", NEW)
    with pytest.raises(ConsilienceError, match="holds no exported model"):
        load_model(tmp_path / "d")


def test_a_model_that_draws_when_it_predicts_is_not_kept(tmp_path: Path) -> None:
    class Drawing(cs.extend.Wrapper):
        def predict(self, x: Any) -> np.ndarray:
            return np.random.default_rng().dirichlet(np.ones(3), len(x)).astype(np.float32)

    with pytest.raises(ConsilienceError, match="differs from the trained one"):
        export_agent(Drawing(cs.SklearnAgent(StandardLogistic(), X, Y, "a")), tmp_path / "a", NEW)
    assert not list(tmp_path.iterdir())
    good = cs.SklearnAgent(StandardLogistic(), X, Y, "a")
    export_agent(good, tmp_path / "a", NEW)
    with pytest.raises(ConsilienceError, match="differs from the trained one"):
        export_agent(Drawing(good), tmp_path / "a", NEW, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert np.array_equal(load_model(tmp_path / "a").predict(NEW), good.predict(NEW)), "the model that was there stays"


def test_an_export_clears_away_what_a_killed_one_left(trained: dict[str, Any], tmp_path: Path) -> None:
    export_agent(trained["forest"], tmp_path / "a", NEW)
    (tmp_path / "a").rename(tmp_path / ".a.123.old")  # killed here, between two renames
    for _ in range(2):
        export_agent(trained["forest"], tmp_path / "a", NEW, overwrite=True)
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert np.array_equal(load_model(tmp_path / "a").predict(NEW), trained["forest"].predict(NEW))


def StandardLogistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


@pytest.mark.parametrize("scikit", [False, True])
def test_preprocessing_goes_with_the_model(trained: dict[str, Any], tmp_path: Path, scikit: bool) -> None:
    raw = NEW * 3 + 7
    step: Any = StandardScaler().fit(raw) if scikit else Scale(raw.mean(axis=0), raw.std(axis=0))
    export_agent(trained["forest"], tmp_path / "m", raw, prepare=[step])
    wanted = trained["forest"].predict(step.transform(raw) if scikit else step(raw))
    np.testing.assert_allclose(load_model(tmp_path / "m").predict(raw), wanted, atol=1e-6)


def test_columns_are_found_by_name_and_what_does_not_fit_is_said(trained: dict[str, Any], tmp_path: Path) -> None:
    names = tuple("abcdef")
    export_agent(trained["forest"], tmp_path / "m", NEW, Facts(columns=names, classes=("x", "y", "z")))
    model = load_model(tmp_path / "m")
    table = pd.DataFrame(NEW, columns=list(names)).assign(more=1)[["more", *reversed(names)]]
    np.testing.assert_array_equal(model.predict(table), model.predict(NEW))
    assert set(model.predict_labels(table)) <= {"x", "y", "z"} and model.classes == ("x", "y", "z")
    with pytest.raises(ConsilienceError, match="no column 'c'"):
        model.predict(table.drop(columns="c"))
    with pytest.raises(ConsilienceError, match=r"shape \(5,\), but the model takes \(6,\)"):
        model.predict(NEW[:, :5])
    with pytest.raises(ConsilienceError, match="takes numbers"):
        model.predict(np.array([["a"] * 6]))
