"""Estimators as bytes, through skops: only types that are known to be harmless are ever made from them."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

from consilience.base.errors import ConsilienceError
from consilience.export import checks

PARTIAL, CHECK_ARRAY, TREE = "functools.partial", "sklearn.utils.validation.check_array", "sklearn.tree._tree.Tree"
TRUSTED = frozenset(
    (
        PARTIAL,  # of CHECK_ARRAY alone
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",  # its numbers are checked
        "sklearn.feature_extraction.text.TfidfTransformer",
        "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
        "sklearn.gaussian_process.kernels.ConstantKernel",
        "sklearn.gaussian_process.kernels.DotProduct",
        "sklearn.gaussian_process.kernels.Matern",
        "sklearn.gaussian_process.kernels.Product",
        "sklearn.gaussian_process.kernels.RBF",
        "sklearn.gaussian_process.kernels.Sum",
        "sklearn.gaussian_process.kernels.WhiteKernel",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        TREE,  # its numbers are checked
        "sklearn.utils._bunch.Bunch",
        CHECK_ARRAY,
    )
)
"""Types of fitted scikit-learn estimators, beside those that skops trusts by itself. They hold data and run nothing."""
MOST_PACKED, SMALL = 1000, 100_000_000
"""A file may unpack to SMALL bytes, or to MOST_PACKED times its own size."""


def dump(thing: Any, whose: str) -> bytes:
    """A fitted estimator or transformer as bytes; an error if it holds a type that `load` would refuse."""
    import skops.io

    try:
        with checks.without_search_trees(thing):
            data: bytes = skops.io.dumps(thing)
    except Exception as error:  # whatever a foreign class does when it is taken apart
        raise ConsilienceError(f"{whose}: {type(thing).__name__} cannot be stored ({error}).") from error
    foreign = sorted(set(skops.io.get_untrusted_types(data=data)) - TRUSTED)
    if foreign:
        raise ConsilienceError(
            f"{whose}: {type(thing).__name__} holds {', '.join(foreign)}, which cannot be stored safely. "
            "Use estimators and transformers of scikit-learn, or ship the Python file that defines it."
        )
    return data


def load(data: bytes, where: str) -> Any:
    """The estimator in such bytes; an error, before anything is made, if they hold a type that is not known.

    A known type can hold numbers that make its compiled code read beyond its arrays, or a setting that makes it read
    files. `checks` refuses these.
    """
    with checks.reading_model(where, "scikit-learn"), ZipFile(BytesIO(data)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > max(SMALL, MOST_PACKED * len(data)):
            raise ConsilienceError(f"{where} would be unpacked from {len(data)} to {unpacked} bytes, and is not.")
        root = _nodes(archive)
        foreign = sorted(root.get_unsafe_set() - TRUSTED)
        if foreign:
            raise ConsilienceError(
                f"{where} holds the type {foreign[0]}, which is not known to be harmless. It was not loaded."
            )
        for node in _all_nodes(root):
            _check_node(node)
        estimator = root.construct()
        checks.check_estimator(estimator)
    return estimator


def _nodes(archive: ZipFile) -> Any:
    """What the file would make, as skops' nodes: nothing is made of them yet."""
    from skops.io import _audit, _persist, _protocol, _utils  # noqa: F401 (_persist registers the kinds of nodes)

    schema = json.loads(archive.read("schema.json"))
    protocol = schema.get("protocol")
    if type(protocol) is not int or not 0 <= protocol <= _protocol.PROTOCOL:
        raise ConsilienceError(f"a skops file of protocol {protocol!r:.20} cannot be read. Update skops.")
    return _audit.get_tree(schema, _utils.LoadContext(src=archive, protocol=protocol), trusted=sorted(TRUSTED))


def _all_nodes(root: Any) -> Iterator[Any]:
    """Every node once, without the constructors of nodes."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
        elif hasattr(node, "get_unsafe_set") and id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting.extend(child for name, child in node.children.items() if name != "constructor")


def _check_node(node: Any) -> None:
    """Refuses calls of compiled code with numbers of the file's choice, before anything is made."""
    kind, name = type(node).__name__, f"{node.module_name}.{node.class_name}"
    if name == TREE:
        if kind != "TreeNode":
            raise checks.HarmfulError("a tree that is no tree")
        checks.check_tree(node.children["args"].construct(), node.children["attrs"].construct())
    if name == PARTIAL:
        func = node.children.get("func") if kind == "PartialNode" else None
        if f"{getattr(func, 'module_name', '')}.{getattr(func, 'class_name', '')}" != CHECK_ARRAY:
            raise checks.HarmfulError("a call of another function than check_array")
