"""A network in a model folder reads no file of the folder that it is used in."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from consilience.base.errors import ConsilienceError
from consilience.export.folder import load_model
from tests.export.conftest import NEW, predict, reseal

SECRET = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6MDEyMzQ1\n"


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
