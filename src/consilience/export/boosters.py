"""Files of XGBoost and LightGBM, checked before these libraries read them: their compiled code follows any index."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from consilience.export.checks import MOST_OUTPUTS, HarmfulError, check_nodes, need

MOST_NUMBER = 2**31 - 1
_OBJECTIVES = ("binary:", "multi:", "reg:", "count:")
_MOST_CATEGORY = 1_000_000


def checked_xgboost(data: bytes) -> bytes:
    """The JSON of an XGBoost model, if its trees and numbers fit together; a HarmfulError otherwise."""
    try:
        table = json.loads(data.decode("utf-8"), object_pairs_hook=_without_duplicates)
        _check_learner(table["learner"])
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise HarmfulError(f"a model in another form ({type(error).__name__}: {error})") from error
    return data


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table of JSON without duplicate keys: readers differ in which one they take."""
    table = dict(pairs)
    need(len(table) == len(pairs), "a key stands twice")
    return table


def _check_learner(learner: dict[str, Any]) -> None:
    sizes, objective = learner["learner_model_param"], learner["objective"]
    features = _digits(sizes["num_feature"], 1, MOST_NUMBER, "the number of features")
    classes = _digits(sizes["num_class"], 0, MOST_OUTPUTS, "the number of classes")
    targets = _digits(sizes.get("num_target", "1"), 1, MOST_OUTPUTS, "the number of values")
    name = objective["name"]
    need(isinstance(name, str) and name.startswith(_OBJECTIVES), f"an unknown objective {name!r:.40}")
    need(name.startswith("multi:") == (classes > 1), "classes that do not fit the objective")
    if classes > 1:
        need(objective["softmax_multiclass_param"]["num_class"] == sizes["num_class"], "two numbers of classes")
    groups = max(classes, targets, 1)
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        weights = booster["model"]["weights"]
        need(isinstance(weights, list) and len(weights) == (features + 1) * groups, "the number of weights")
        return
    need(booster["name"] in ("gbtree", "dart"), "an unknown booster")
    model = booster["gbtree"]["model"] if booster["name"] == "dart" else booster["model"]
    _check_trees(model, features, groups)
    if booster["name"] == "dart":
        need(len(booster["weight_drop"]) == len(model["trees"]), "the weights of trees")


def _check_trees(model: dict[str, Any], features: int, groups: int) -> None:
    trees, info, rounds = model["trees"], model["tree_info"], model.get("iteration_indptr")
    number = len(trees)
    sizes = model["gbtree_model_param"]
    _digits(sizes["num_trees"], number, number, "the number of trees")
    _digits(sizes.get("num_parallel_tree", "1"), 1, max(1, number), "the number of parallel trees")
    need(len(_whole_numbers(info, 0, groups - 1, "the classes of trees")) == number, "the classes of trees")
    if rounds is not None:
        starts = _whole_numbers(rounds, 0, number, "the rounds of trees")
        need(starts[:1] == [0] and starts[-1] == number and starts == sorted(starts), "the rounds of trees")
    ids = _whole_numbers([tree["id"] for tree in trees], 0, number - 1, "the places of trees")
    need(ids == list(range(number)), "the places of trees")
    for tree in trees:
        _check_xgboost_tree(tree, features)
    if "cats" in model:
        _check_categories(model["cats"], features)


def _check_xgboost_tree(tree: dict[str, Any], features: int) -> None:
    sizes = tree["tree_param"]
    nodes = _digits(sizes["num_nodes"], 1, MOST_NUMBER, "the number of nodes")
    _digits(sizes["num_feature"], features, features, "the number of a tree's features")
    _digits(sizes.get("size_leaf_vector", "1"), 0, 1, "a leaf with several values")
    columns = ("base_weights", "default_left", "left_children", "right_children", "split_conditions", "split_indices")
    for name in (*columns, "parents", "split_type", "sum_hessian", "loss_changes"):
        need(isinstance(tree[name], list) and len(tree[name]) == nodes, f"{name} of a tree")
    left = np.array(_whole_numbers(tree["left_children"], -1, nodes - 1, "the nodes of a tree"))
    right = np.array(_whole_numbers(tree["right_children"], -1, nodes - 1, "the nodes of a tree"))
    leaf = left == -1
    need(((right == -1) == leaf).all(), "a node with one child")
    split = np.array(_whole_numbers(tree["split_indices"], 0, 2**32 - 1, "the features of a tree"))
    check_nodes(left, right, leaf, split, features)
    parents = np.array(_whole_numbers(tree["parents"], -1, MOST_NUMBER, "the parents of nodes"))
    inner = np.flatnonzero(~leaf)
    need((parents[left[inner]] == inner).all() and (parents[right[inner]] == inner).all(), "the parents of nodes")
    kinds = np.array(_whole_numbers(tree["split_type"], 0, 1, "the kinds of splits"))
    own = _whole_numbers(tree["categories_nodes"], 0, nodes - 1, "the categories of a tree")
    need(own == sorted(set(own)) and set(own) == set(np.flatnonzero(kinds == 1).tolist()), "the categories of a tree")
    words = _whole_numbers(tree["categories"], 0, _MOST_CATEGORY, "the categories of a tree")
    starts = _whole_numbers(tree["categories_segments"], 0, len(words), "the categories of a tree")
    lengths = _whole_numbers(tree["categories_sizes"], 0, len(words), "the categories of a tree")
    need(len(starts) == len(lengths) == len(own), "the categories of a tree")
    need(all(start + size <= len(words) for start, size in zip(starts, lengths, strict=True)), "categories of a tree")


def _check_categories(categories: dict[str, Any], features: int) -> None:
    """The words of columns of categories, as XGBoost keeps them since version 3.1."""
    order, starts = categories["sorted_idx"], categories["feature_segments"]
    need(len(categories["enc"]) in (0, features) and len(starts) in (0, features + 1), "the categories of columns")
    starts = _whole_numbers(starts, 0, len(order), "the categories of columns")
    need(starts == sorted(starts) and starts[-1:] == ([len(order)] if starts else []), "the categories of columns")
    for start, end in pairwise(starts):
        _whole_numbers(order[start:end], 0, end - start - 1, "the categories of columns")
    for column, words in enumerate(categories["enc"]):
        values, offsets = words["values"], words.get("offsets")
        size = starts[column + 1] - starts[column]
        if offsets is None:
            need(len(values) == size, "the categories of columns")
            continue
        offsets = _whole_numbers(offsets, 0, len(values), "the categories of columns")
        need(offsets == sorted(offsets) and len(offsets) == (size + 1 if size else len(offsets)), "categories")
        need(not size or (offsets[0], offsets[-1]) == (0, len(values)), "the categories of columns")


def checked_lightgbm(data: bytes) -> str:
    """The text of a LightGBM model, if its trees and numbers fit together; a HarmfulError otherwise.

    It is written again from what was checked: without the sizes of its trees, by which the library would cut it, and
    without parameters of training, which predictions do not need.
    """
    text, _, rest = data.decode("utf-8").replace("\r\n", "\n").partition("\nend of trees")
    head, *trees = re.split(r"\n+Tree=\d+\n", text)
    need(head.startswith("tree\n"), "a model in another form")
    header = _lines(head.removeprefix("tree\n"))
    header.pop("tree_sizes", None)
    classes = _digits(header.get("num_class", ""), 1, MOST_OUTPUTS, "the number of classes")
    each = _digits(header.get("num_tree_per_iteration", ""), classes, classes, "the number of trees in a round")
    features = 1 + _digits(header.get("max_feature_idx", ""), 0, MOST_NUMBER - 1, "the number of features")
    need(len(trees) % each == 0, "the number of trees")
    for name in ("feature_names", "feature_infos"):
        need(len(header.get(name, "").split(" ")) == features, f"the number of {name}")
    for number in re.findall(r"num_class:(\S*)", header.get("objective", "")):
        _digits(number, classes, classes, "two numbers of classes")
    parts = ["tree", *(f"{key}={value}" if value is not None else key for key, value in header.items()), ""]
    for index, tree in enumerate(trees):
        lines = _lightgbm_tree(tree, features)
        parts += [f"Tree={index}", *(f"{key}={value}" for key, value in lines.items()), "", ""]
    words = re.search(r"^pandas_categorical:(.*)$", rest, re.MULTILINE)
    return "\n".join([*parts, "end of trees", "", f"pandas_categorical:{_words(words[1] if words else 'null')}", ""])


def _words(text: str) -> str:
    """The categories of a table's columns, as JSON."""
    columns = json.loads(text)
    is_lists = isinstance(columns, list) and all(isinstance(words, list) for words in columns)
    need(columns is None or is_lists, "its categories")
    return json.dumps(columns)


def _lines(text: str) -> dict[str, Any]:
    """Lines of KEY=VALUE; of a word alone, the value is None."""
    values: dict[str, Any] = {}
    for line in filter(None, text.split("\n")):
        key, equals, value = line.partition("=")
        need(re.fullmatch(r"[a-z_]{1,60}", key) and key not in values, f"the line {line!r:.60}")
        values[key] = value if equals else None
    return values


_INNER = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_INNER_MORE = ("split_gain", "internal_value", "internal_weight", "internal_count")
_LEAF_MORE = ("leaf_weight", "leaf_count")


def _lightgbm_tree(text: str, features: int) -> dict[str, str]:
    """The lines of a tree, after checking the number of their values and where its nodes lead."""
    lines = _lines(text)
    leaves = _digits(lines.get("num_leaves", ""), 1, MOST_NUMBER, "the number of leaves")
    sets = _digits(lines.get("num_cat", ""), 0, MOST_NUMBER, "the number of categories")
    need(lines.get("is_linear", "0") == "0", "a tree with linear models in its leaves, which is not supported")
    known = {"num_leaves", "num_cat", "is_linear", "shrinkage", "leaf_value", "cat_boundaries", "cat_threshold"}
    need(lines.keys() <= {*known, *_INNER, *_INNER_MORE, *_LEAF_MORE}, "a tree in another form")
    columns = dict.fromkeys(_INNER, leaves - 1) | {"leaf_value": leaves}
    columns |= {name: leaves - 1 for name in _INNER_MORE if lines.get(name)}
    columns |= {name: leaves for name in _LEAF_MORE if lines.get(name)}
    numbers = {name: _numbers(lines.get(name, ""), size, name) for name, size in columns.items()}
    _numbers(lines.get("shrinkage", "1"), 1, "shrinkage")
    left, right = (_integers(numbers[name], -leaves, leaves - 2, name) for name in ("left_child", "right_child"))
    both = left + right
    inner, outer = sorted(child for child in both if child >= 0), sorted(~child for child in both if child < 0)
    need(leaves == 1 or (inner == list(range(1, leaves - 1)) and outer == list(range(leaves))), "the nodes of a tree")
    _integers(numbers["split_feature"], 0, features - 1, "the features of a tree")
    kinds = _integers(numbers["decision_type"], 0, 15, "the kinds of splits")
    chosen = [threshold for threshold, kind in zip(numbers["threshold"], kinds, strict=True) if kind & 1]
    _integers(chosen, 0, sets - 1, "the categories of a tree")
    if sets:
        _check_bits(lines, sets)
    return lines


def _check_bits(lines: dict[str, Any], sets: int) -> None:
    starts = _integers(_numbers(lines.get("cat_boundaries", ""), sets + 1, "categories"), 0, MOST_NUMBER, "categories")
    need(starts[0] == 0 and starts == sorted(starts), "the categories of a tree")
    _integers(_numbers(lines.get("cat_threshold", ""), starts[-1], "categories"), 0, 2**32 - 1, "categories")


def _numbers(text: str, size: int, what: str) -> list[str]:
    """The numbers in a text, still as text; `size` of them."""
    texts = text.split(" ") if text else []
    need(len(texts) == size, f"{what}: {len(texts)} numbers, not {size}")
    pattern = re.compile(r"-?\d{1,330}(\.\d{1,60})?(e[+-]?\d{1,4})?|-?inf|-?nan")
    need(all(pattern.fullmatch(number) for number in texts), f"{what} is no list of numbers")
    return texts


def _integers(texts: Sequence[str], least: int, most: int, what: str) -> list[int]:
    return [_digits(text, least, most, what) for text in texts]


def _digits(text: Any, least: int, most: int, what: str) -> int:
    """A whole number that is written as text, within limits."""
    need(isinstance(text, str) and re.fullmatch(r"-?\d{1,18}", text), f"{what} is {text!r:.40}")
    need(least <= int(text) <= most, f"{what} is {text}")
    return int(text)


def _whole_numbers(values: Any, least: int, most: int, what: str) -> list[int]:
    """A list of whole numbers within limits."""
    need(isinstance(values, list) and all(type(value) is int for value in values), f"{what}: no list of whole numbers")
    need(not values or (min(values) >= least and max(values) <= most), f"{what} beyond what there is")
    return list(values)
