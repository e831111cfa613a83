"""Files of XGBoost and LightGBM with edited numbers are refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilience.base.errors import ConsilienceError
from consilience.export.folder import export_agent, load_model
from tests.export.conftest import NEW, reseal


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
    "place": lambda learner: _tree(learner).update(id=2**64),
    "two places": lambda learner: _tree(learner).update(id=1),
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
