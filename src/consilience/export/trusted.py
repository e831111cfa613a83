"""Estimators as bytes, through skops: only types that are known to be harmless are ever made from them."""

from typing import Any

from consilience.errors import ConsilienceError

TRUSTED = frozenset(
    (
        "functools.partial",  # of something that is trusted itself
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
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
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        "sklearn.utils.validation.check_array",
    )
)
"""Types of fitted scikit-learn estimators, beside those that skops trusts by itself. They hold data and run nothing."""


def dump(thing: Any, whose: str) -> bytes:
    """A fitted estimator or transformer as bytes; an error if it holds a type that `load` would refuse."""
    io = _skops()
    try:
        data: bytes = io.dumps(thing)
    except Exception as error:  # whatever a foreign class does when it is taken apart
        raise ConsilienceError(f"{whose}: {type(thing).__name__} cannot be stored ({error}).") from error
    foreign = _foreign(data)
    if foreign:
        raise ConsilienceError(
            f"{whose}: {type(thing).__name__} holds {', '.join(foreign)}, which cannot be stored safely. "
            "Use estimators and transformers of scikit-learn, or ship the Python file that defines it."
        )
    return data


def load(data: bytes, where: str) -> Any:
    """The estimator in such bytes; an error, before anything is made, if they hold a type that is not known."""
    io = _skops()
    try:
        foreign = _foreign(data)
        if not foreign:
            return io.loads(data, trusted=sorted(TRUSTED))
    except Exception as error:  # a damaged file fails in many ways
        raise ConsilienceError(f"{where} cannot be read ({type(error).__name__}: {error}).") from error
    raise ConsilienceError(
        f"{where} holds the type {foreign[0]}, which is not known to be harmless. It was not loaded."
    )


def _foreign(data: bytes) -> list[str]:
    return sorted(set(_skops().get_untrusted_types(data=data)) - TRUSTED)


def _skops() -> Any:
    import skops.io

    return skops.io
