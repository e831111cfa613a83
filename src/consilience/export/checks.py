"""Fitted estimators from a file: refuses numbers and settings that no training leaves behind.

Compiled code of scikit-learn and SciPy takes indices out of a model as they are. Edited ones make it read and write
beyond its arrays, or run for ever. What is checked here is what that code relies on.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import reading

MOST_OUTPUTS = 1_000_000
_NO_FEATURE = "a tree uses features that do not exist"


class HarmfulError(ValueError):
    """Why a model from a file is not used."""


def need(good: Any, problem: str) -> None:
    """Raises a HarmfulError if a condition does not hold."""
    if not bool(good):
        raise HarmfulError(problem)


@contextmanager
def reading_model(file: str, library: str) -> Iterator[None]:
    """A context in which any failure to read a model becomes an error that names its file.

    Args:
        file: The file.
        library: The library that models of this kind are made with.
    """
    with reading(file):
        try:
            yield
        except HarmfulError as error:
            raise ConsilienceError(f"{file} is not a model that {library} made: {error}. It was not loaded.") from error


def whole(value: Any, least: int, most: int, what: str) -> int:
    """A whole number within limits."""
    need(isinstance(value, int | np.integer) and not isinstance(value, bool), f"{what} is no whole number")
    need(least <= value <= most, f"{what} is {value}")
    return int(value)


def check_nodes(left: Any, right: Any, leaf: Any, feature: Any, features: float = np.inf) -> None:
    """Refuses a tree whose paths may not end, or whose inner nodes use features that do not exist.

    Args:
        left: The number of each node's left child.
        right: The number of each node's right child.
        leaf: Whether a node is a leaf.
        feature: The number of the feature by which each node splits.
        features: The number of features, where it is known.
    """
    inner = ~np.asarray(leaf, dtype=bool)
    children = np.concatenate([np.asarray(left)[inner], np.asarray(right)[inner]]).astype(np.int64)
    used = np.asarray(feature)[inner]
    need(len(left) > 0, "a tree has no nodes")
    need(((children > 0) & (children < len(left))).all(), "a tree leads to nodes that it does not have")
    need(len(np.unique(children)) == len(children), "a tree leads twice to one node")
    need(((used >= 0) & (used < features)).all(), _NO_FEATURE)


def check_tree(args: Any, state: Any) -> None:
    """A tree of scikit-learn, before it is made: what it is called with, and its state."""
    need(isinstance(args, tuple) and len(args) == 3 and isinstance(state, dict), "a tree in another form")
    features, classes, outputs = args
    whole(features, 1, 2**31, "the number of a tree's features")
    whole(outputs, 1, MOST_OUTPUTS, "the number of a tree's outputs")
    need(
        isinstance(classes, np.ndarray) and classes.shape == (outputs,) and classes.dtype.kind == "i",
        "a tree's classes",
    )
    need(((classes >= 1) & (classes <= MOST_OUTPUTS)).all(), "a tree's classes")
    nodes, values = state.get("nodes"), state.get("values")
    need(isinstance(nodes, np.ndarray) and nodes.ndim == 1 and nodes.dtype.names, "a tree without nodes")
    whole(state.get("node_count"), len(nodes), len(nodes), "the number of a tree's nodes")
    need(
        isinstance(values, np.ndarray)
        and values.shape == (len(nodes), outputs, int(classes.max()))
        and values.dtype == np.float64,
        "the values of a tree do not fit it",
    )
    left = nodes["left_child"]
    check_nodes(left, nodes["right_child"], left == -1, nodes["feature"], features)


def check_estimator(thing: Any) -> None:
    """An estimator or transformer with all that it holds."""
    for member in _all_parts(thing):
        for base in type(member).__mro__:
            fitted, check = _CHECKS.get(f"{base.__module__}.{base.__qualname__}", ("", None))
            if check is not None and (not fitted or hasattr(member, fitted)):
                check(member)


@contextmanager
def without_search_trees(thing: Any) -> Iterator[None]:
    """A context in which nearest neighbours have no search tree: it cannot be stored, and is rebuilt when read."""
    neighbours = [member for member in _all_parts(thing) if _is_neighbours(member) and member._tree is not None]
    trees = [member._tree for member in neighbours]
    try:
        for member in neighbours:
            member._tree = None
        yield
    finally:
        for member, tree in zip(neighbours, trees, strict=True):
            member._tree = tree


def _is_neighbours(thing: Any) -> bool:
    return any(base.__name__ == "NeighborsBase" for base in type(thing).__mro__) and hasattr(thing, "_tree")


def _all_parts(thing: Any) -> Iterator[Any]:
    """Everything that an object holds, itself included, once."""
    waiting, seen, kept = [thing], set[int](), []
    while waiting:
        member = waiting.pop()
        if member is None or isinstance(member, str | bytes | int | float) or id(member) in seen:
            continue
        seen.add(id(member))
        kept.append(member)  # so that no other one gets its identity
        yield member
        if isinstance(member, Mapping):
            waiting.extend([*member.keys(), *member.values()])
        elif isinstance(member, list | tuple | set | frozenset):
            waiting.extend(member)
        elif isinstance(member, np.ndarray):
            waiting.extend(member.ravel().tolist() if member.dtype.kind == "O" else [])
        elif isinstance(member, partial):
            waiting.extend([member.func, *member.args, *member.keywords.values()])
        if not isinstance(member, type) and hasattr(member, "__dict__"):
            waiting.extend(vars(member).values())


def _features(estimator: Any) -> int:
    return whole(getattr(estimator, "n_features_in_", None), 1, 2**31, "the number of features")


def _decision_tree(model: Any) -> None:
    need(model.tree_.n_features == _features(model), "a tree that takes other features than its model")


def _forest(model: Any) -> None:
    trees = list(np.asarray(model.estimators_, dtype=object).ravel())
    need(trees and all(tree.tree_.n_features == _features(model) for tree in trees), "trees for other features")


def _gradient_boosting(model: Any) -> None:
    _forest(model)
    each = getattr(model, "n_trees_per_iteration_", None)
    need(model.estimators_.ndim == 2 and model.estimators_.shape[1] == each, "trees for other classes")


def _histogram_tree(tree: Any) -> None:
    """Checks what does not depend on the samples; `CheckedTreePredictor` checks the rest."""
    nodes, sets = tree.nodes, tree.raw_left_cat_bitsets
    need(isinstance(nodes, np.ndarray) and nodes.ndim == 1 and nodes.dtype.names, "a tree without nodes")
    inner = nodes[nodes["is_leaf"] == 0]
    check_nodes(nodes["left"], nodes["right"], nodes["is_leaf"] != 0, nodes["feature_idx"])
    need(isinstance(sets, np.ndarray) and sets.ndim == 2 and sets.shape[1] == 8, "a tree's categories")
    split = inner[inner["is_categorical"] != 0]
    need((split["bitset_idx"] < len(sets)).all(), "a tree's categories")
    tree.__class__ = _checked_predictor()


def _checked_predictor() -> type:
    """A tree of histogram boosting that checks its inputs before its compiled code reads them."""
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    class CheckedTreePredictor(TreePredictor):  # type: ignore[misc]
        def predict(self, X: Any, known_cat_bitsets: Any, f_idx_map: Any, n_threads: int) -> Any:
            inner = self.nodes[self.nodes["is_leaf"] == 0]
            split = inner["feature_idx"][inner["is_categorical"] != 0]
            need((inner["feature_idx"] < X.shape[1]).all(), _NO_FEATURE)
            need((split < len(f_idx_map)).all(), "a tree's categories")
            need((np.asarray(f_idx_map)[split] < len(known_cat_bitsets)).all(), "a tree's categories")
            return super().predict(X, known_cat_bitsets, f_idx_map, n_threads)

        def predict_binned(self, *_: Any) -> Any:
            raise HarmfulError("a model that is said to be in training")

    CheckedTreePredictor.__qualname__ = CheckedTreePredictor.__name__ = TreePredictor.__name__
    return CheckedTreePredictor


def _sparse(matrix: Any) -> None:
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)


def _vectoriser(vectoriser: Any) -> None:
    need(vectoriser.input == "content", f"texts would be read from files (input={vectoriser.input!r:.40})")
    if hasattr(vectoriser, "n_features"):
        whole(vectoriser.n_features, 1, 2**31 - 1, "the number of features")


def _vocabulary(vectoriser: Any) -> None:
    words = vectoriser.vocabulary_
    need(isinstance(words, Mapping), "a vocabulary in another form")
    numbers = [whole(number, 0, len(words) - 1, "the number of a word") for number in words.values()]
    need(len(set(numbers)) == len(numbers), "two words with one number")


def _one_hot(encoder: Any) -> None:
    widths, groups = encoder._n_features_outs, getattr(encoder, "_default_to_infrequent_mappings", None)
    drop = getattr(encoder, "_drop_idx_after_grouping", None)
    need(isinstance(widths, list) and len(widths) == len(encoder.categories_), "the columns of an encoder")
    for column, (width, known) in enumerate(zip(widths, encoder.categories_, strict=True)):
        grouped = None if not getattr(encoder, "_infrequent_enabled", False) or groups is None else groups[column]
        values = len(known) if grouped is None else 1 + int(np.max(grouped))
        need(grouped is None or (len(grouped) == len(known) and int(np.min(grouped)) >= 0), "the groups of an encoder")
        dropped = None if drop is None else drop[column]
        if dropped is not None:
            whole(dropped, 0, values - 1, "a dropped category")
        least = values - (dropped is not None)
        whole(width, least, least, "the columns of an encoder")


def _support_vectors(model: Any) -> None:
    vectors, counts = model.support_vectors_, np.asarray(model._n_support)
    classes = len(counts)
    need(vectors.shape[1] == _features(model) or model.kernel == "precomputed", "support vectors with other features")
    need(counts.ndim == 1 and (counts >= 0).all() and counts.sum() == vectors.shape[0], "support vectors")
    need(len(model.support_) == vectors.shape[0], "support vectors")
    rows, pairs = max(1, classes - 1), max(1, classes * (classes - 1) // 2)
    need(model._dual_coef_.shape == (rows, vectors.shape[0]), "the coefficients of support vectors")
    need(np.asarray(model._intercept_).shape == (pairs,), "the intercepts of support vectors")
    for name in ("_probA", "_probB"):
        need(np.asarray(getattr(model, name, ())).size in (0, pairs), "the probabilities of support vectors")


def _neighbours(model: Any) -> None:
    """Checks the samples, and makes the search tree of nearest neighbours again, as training did."""
    rows = model._fit_X.shape[0]
    whole(model.n_samples_fit_, rows, rows, "the number of neighbours' samples")
    need(model._fit_X.shape[1] == _features(model), "neighbours with other features")
    labels = getattr(model, "_y", None)
    if labels is not None:
        need(len(labels) == rows, "labels of neighbours")
        known = getattr(model, "classes_", None)
        if isinstance(known, np.ndarray):
            need(labels.ndim == 1 and ((labels >= 0) & (labels < len(known))).all(), "labels of neighbours")
    if model._fit_method in ("kd_tree", "ball_tree"):
        from sklearn.neighbors import BallTree, KDTree

        need(isinstance(model.effective_metric_, str), "a distance that is no name")
        kind = KDTree if model._fit_method == "kd_tree" else BallTree
        leaf = whole(model.leaf_size, 1, 2**31, "the size of a leaf")
        model._tree = kind(model._fit_X, leaf, metric=model.effective_metric_, **model.effective_metric_params_)


_CHECKS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "sklearn.tree._classes.BaseDecisionTree": ("tree_", _decision_tree),
    "sklearn.ensemble._forest.BaseForest": ("estimators_", _forest),
    "sklearn.ensemble._gb.BaseGradientBoosting": ("estimators_", _gradient_boosting),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": ("", _histogram_tree),
    "sklearn.feature_extraction.text._VectorizerMixin": ("", _vectoriser),
    "sklearn.feature_extraction.text.CountVectorizer": ("vocabulary_", _vocabulary),
    "sklearn.feature_extraction._dict_vectorizer.DictVectorizer": ("vocabulary_", _vocabulary),
    "sklearn.neighbors._base.NeighborsBase": ("_fit_X", _neighbours),
    "sklearn.preprocessing._encoders.OneHotEncoder": ("categories_", _one_hot),
    "sklearn.svm._base.BaseLibSVM": ("support_vectors_", _support_vectors),
    "scipy.sparse._base._spbase": ("", _sparse),
}
"""By the full name of a class: its attribute when fitted, and the check for it and its subclasses."""
