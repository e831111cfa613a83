"""Model folders from somebody else, read by `predict --model`: whatever they do, the command ends with a sentence."""

import json
import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from consilience.base.errors import ConsilienceError
from consilience.cli.main import app
from consilience.export.folder import copy_model, export_agent, load_model
from consilience.export.isolated import predict_isolated
from tests.export.conftest import NEW, predict, reseal


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    pd.DataFrame(NEW[:4]).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def endless(rows: int) -> bytes:
    """A network that goes round a loop for ever, with so many numbers in hand."""
    from onnx import TensorProto, helper

    number, yes, no = TensorProto.INT64, TensorProto.BOOL, helper.make_tensor_value_info
    same = helper.make_node("Identity", ["go"], ["on"])
    once = helper.make_node("Tanh", ["before"], ["after"])
    carried = [no("before", TensorProto.FLOAT, None)], [no("after", TensorProto.FLOAT, None)]
    start = [no("i", number, []), no("go", yes, []), *carried[0]]
    body = helper.make_graph([same, once], "body", start, [no("on", yes, []), *carried[1]])
    fill = helper.make_tensor("fill", TensorProto.FLOAT, [1], [0.5])
    shape = helper.make_tensor("shape", number, [1], [rows])
    most = helper.make_tensor("most", number, [], [2**62])
    go = helper.make_tensor("first", yes, [], [True])
    first = helper.make_tensor("three", number, [3], [0, 1, 2])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["many"], value=fill),
        helper.make_node("Loop", ["most", "first", "many"], ["last"], body=body),
        helper.make_node("Gather", ["last", "three"], ["some"]),
        helper.make_node("ReduceSum", ["x", "axis"], ["row"], keepdims=1),
        helper.make_node("Add", ["row", "some"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["predictions"], axis=1),
    ]
    axis = helper.make_tensor("axis", number, [1], [1])
    x = no("x", TensorProto.FLOAT, ["samples", 6])
    out = no("predictions", TensorProto.FLOAT, ["samples", 3])
    graph = helper.make_graph(nodes, "g", [x], [out], [shape, most, go, first, axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data


@pytest.fixture
def loops(own_network_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(own_network_folder, tmp_path / "loops")
    (tmp_path / "loops" / "model.onnx").write_bytes(endless(10))
    reseal(tmp_path / "loops")
    return tmp_path / "loops"


def test_a_model_that_hangs_ends_in_a_sentence(loops: Path, samples: Path) -> None:
    began = time.monotonic()
    done = predict(samples.parent, loops, samples, "--seconds", "15")
    said = " ".join(done.stderr.split())
    assert done.returncode == 2 and "had not predicted after 15 seconds" in said, said
    assert time.monotonic() - began < 60 and not (samples.parent / "predictions.csv").exists()


def test_a_model_that_takes_all_memory_ends_in_a_sentence(
    own_network_folder: Path, tmp_path: Path, samples: Path
) -> None:
    shutil.copytree(own_network_folder, tmp_path / "huge")
    (tmp_path / "huge" / "model.onnx").write_bytes(endless(2**34))
    reseal(tmp_path / "huge")
    done = predict(tmp_path, tmp_path / "huge", samples, "--memory", "6")
    assert done.returncode == 2 and "error:" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_a_model_that_crashes_ends_in_a_sentence(loops: Path, samples: Path) -> None:
    """The process that reads the model gets the signal that a wrong pointer gives."""

    def crash() -> None:
        for _ in range(600):
            time.sleep(0.05)
            for path in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                    if parent == os.getpid() and b"export.isolated" in (path / "cmdline").read_bytes():
                        os.kill(int(path.name), signal.SIGSEGV)
                        return

    thread = threading.Thread(target=crash)
    thread.start()
    with pytest.raises(ConsilienceError, match=r"ended the process that read it \(signal SIGSEGV"):
        predict_isolated(loops, samples, 60)
    thread.join()


@pytest.mark.parametrize(
    "name",
    [
        "forest",
        "xgboost",
        "mlp",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("lightgbm", "values", "labels", "own")),
    ],
)
def test_a_model_predicts_there_what_it_predicts_here(
    trained: dict[str, Any], own_network_folder: Path, samples: Path, tmp_path: Path, name: str
) -> None:
    folder = own_network_folder if name == "own" else export_agent(trained[name], tmp_path / "m", NEW, onnx=False)
    f, manifest = predict_isolated(folder, samples)
    x = pd.read_csv(samples).to_numpy(np.float32)
    np.testing.assert_array_equal(f, load_model(folder).predict(x))
    assert len(manifest.names) == f.shape[1]


def test_a_class_name_is_no_formula_in_a_spreadsheet(
    trained: dict[str, Any], samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = export_agent(trained["forest"], tmp_path / "m", NEW)

    def rename(table: dict[str, Any]) -> None:
        table["classes"] = ['=HYPERLINK("http://x","y")', "@SUM(1)", "-1"]

    reseal(folder, rename)
    CliRunner().invoke(app, ["predict", str(samples), "--model", str(folder)], catch_exceptions=False)
    assert list(pd.read_csv(tmp_path / "predictions.csv")) == ['\'=HYPERLINK("http://x","y")', "'@SUM(1)", "-1"]


INCONSISTENT: dict[str, dict[str, Any]] = {
    "file outside": {"files": {"../.bashrc": "0" * 64}},
    "part outside": {"parts": [{"role": "estimator", "form": "skops", "file": ".."}]},
    "hidden": {"parts": [{"role": "estimator", "form": "skops", "file": ".bashrc"}]},
    "checksum": {"files": {"other.skops": 1}},
    "classes": {"classes": ["a", "b"]},
    "no classes": {"classes": []},
    "outputs": {"outputs": 4},
    "many outputs": {"outputs": 10**12},
    "task": {"task": "guessing"},
    "other task": {"task": "multilabel"},
    "question": {"parts": [{"role": "estimator", "form": "skops", "file": "estimator-0.skops", "question": 10**15}]},
    "twice": {"parts": [{"role": "estimator", "form": "skops", "file": "estimator-0.skops", "known": [0, 1, 2]}] * 2},
    "none": {"parts": [{"role": "transform", "form": "skops", "file": "estimator-0.skops"}]},
    "network": {"parts": [{"role": "network", "form": "skops", "file": "estimator-0.skops"}]},
    "onnx": {"parts": [{"role": "network", "form": "onnx", "file": "estimator-0.skops"}]},
    "weights": {"parts": [{"role": "network", "form": "safetensors", "file": "estimator-0.skops"}]},
    "scale": {"parts": [{"role": "estimator", "form": "scale", "file": "estimator-0.skops"}]},
    "boosted": {"parts": [{"role": "estimator", "form": "xgboost", "file": "estimator-0.skops", "known": [0, 1, 2]}]},
    "light": {"parts": [{"role": "estimator", "form": "lightgbm", "file": "estimator-0.skops", "known": [0, 1, 2]}]},
    "known": {"parts": [{"role": "estimator", "form": "skops", "file": "estimator-0.skops", "known": [0, 1]}]},
    "dtype": {"inputs": {"kind": "array", "shape": [6], "dtype": "float99"}},
    "shape": {"inputs": {"kind": "array", "shape": [-6]}},
    "other shape": {"inputs": {"kind": "array", "shape": [10**9, 10**9]}},
    "columns": {"inputs": {"kind": "array", "shape": [6], "columns": ["a"]}},
    "types": {"inputs": {"kind": "table", "columns": ["0"], "types": {"0": [{}]}}},
    "parts": {"inputs": {"kind": "arrays", "parts": {"a": "b"}}},
    "sparse": {"inputs": {"kind": "sparse", "shape": []}},
    "architecture": {"architecture": {"model": "mlp", "shape": [6], "outputs": 10**12}},
    "scores": {"scores": {"accuracy_target": "much"}},
}


@pytest.mark.parametrize("kind", INCONSISTENT)
def test_a_manifest_that_does_not_fit_together_is_refused_with_a_sentence(
    trained: dict[str, Any], tmp_path: Path, samples: Path, kind: str
) -> None:
    """Its checksum is right: somebody made it so."""
    folder = export_agent(trained["forest"], tmp_path / "m", NEW)
    reseal(folder, lambda table: table.update(json.loads(json.dumps(INCONSISTENT[kind]))))
    before = sorted(tmp_path.rglob("*"))
    try:
        load_model(folder).predict(NEW)
        assert kind == "architecture", "an architecture of no network does no harm"
    except ConsilienceError:
        pass
    if kind in ("file outside", "part outside", "hidden"):
        with pytest.raises(ConsilienceError, match=r"not a plain name|no checksum"):
            copy_model(folder, tmp_path / "inner" / "copy")
        assert sorted(tmp_path.rglob("*")) == before
