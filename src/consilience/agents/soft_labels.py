"""How an estimator that takes classes learns from probabilities. What it can do is found out by trying.

A signature does not tell: `CalibratedClassifierCV` takes weights and drops them where the estimator inside has none,
and a tree with a least number of rows in a leaf counts a row that stands there ten times as ten.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from consilience.base.rows import Array, count, take
from consilience.core.streams import stream

MODES = ("repeated", "largest", "sharpened", "drawn")
"""repeated: every shared row once for each class, weighted by its probability. largest: every shared row once, with its
most probable class, weighted by its probability. drawn, without weights: as many shared rows as their weight says, with
drawn classes. sharpened: the same with squared probabilities, which draws fewer wrong classes."""

_ROWS, _CLASSES, _LITTLE = (60, 240, 960, 3840), 3, 1e-6
"""Rows of the trials: the second is made where the estimator says the same of all rows of the first, and so on."""
_SAME = 0.003
"""Mean difference of probabilities up to which they are the same: solvers stop early."""
_KNOWN: dict[tuple[object, ...], Any] = {}
"""What was found out in this process. It depends on the estimator alone, not on who asks first."""


def mode_of(estimator: Any, values: bool, x: Any, y: Array) -> str:
    """The best of MODES for an estimator, or for the last step of a pipeline.

    It is tried on a few samples that are always the same, on more where it learns nothing from few; if it cannot be
    fitted to those, such as one that wants certain columns, on private rows `x` with labels `y`.
    """
    estimator = last_step(estimator)
    if not has_fit_parameter(estimator, "sample_weight"):
        return "sharpened"
    mode = _remembered("mode", estimator, values, lambda: _trials(estimator, values, partial(_sample, values)))
    return mode or _trials(estimator, values, lambda rows: (x, y)) or "sharpened"


def labelled_rows(
    mode: str, psi: Array, values: bool, each: float, draw: np.random.Generator
) -> tuple[Array, Array, Array | None]:
    """Numbers of shared rows, with targets and weights, that stand for each sum_x CE(f(x), psi(x)).

    `each` is lam n/n*, `psi` (samples, classes), or (samples, values) where that is what is predicted. Without weights
    (None) there are round(lam n) rows, and none stands there twice before all do once.

    >>> row, label, weight = labelled_rows("largest", np.array([[0.9, 0.1], [0.4, 0.6]]), False, 0.5, stream(0))
    >>> row.tolist(), label.tolist(), weight.tolist()
    ([0, 1], [0, 1], [0.45, 0.3])
    """
    if mode == "repeated" and not values:
        row, label = np.nonzero(psi > 0)
        return row, label, each * psi[row, label]
    if mode in ("repeated", "largest"):
        every, weight = np.arange(len(psi)), np.full(len(psi), each)
        return (every, psi, weight) if values else (every, psi.argmax(axis=1), weight * psi.max(axis=1))
    length = max(1, round(each * len(psi)))
    row = np.concatenate([draw.permutation(len(psi)) for _ in range(-(-length // len(psi)))])[:length]
    if values:
        return row, psi[row], None
    steps = (psi[row] ** (2 if mode == "sharpened" else 1)).cumsum(axis=1)
    label = (draw.random((length, 1)) * steps[:, -1:] >= steps).sum(axis=1)
    return row, label.clip(max=psi.shape[1] - 1), None


def gives_probabilities(estimator: Any) -> bool:
    """Whether it has `predict_proba`, if need be once it is fitted (`StackingClassifier` says so only then)."""
    if hasattr(estimator, "predict_proba"):
        return True
    if not hasattr(type(estimator), "predict_proba"):
        return False
    x, y = _sample(False, _ROWS[0])

    def fitted_has() -> bool:
        try:
            return hasattr(seeded(estimator, 0).fit(x, y), "predict_proba")
        except Exception:  # whatever it is, it will come again with the private data, where it can be understood
            return True

    return bool(_remembered("probabilities", estimator, False, fitted_has))


def fit_rows(estimator: Any, x: Any, hard: Array, rows: Array, target: Array, weight: Array | None) -> Any:
    """Fits `estimator` to the `rows` of `x`, some of which may be repeated, and returns it.

    The steps before the last one of a pipeline see every row of `x` once, with its most probable class `hard`: a scaler
    or a PCA that saw repeated rows would be another one. Of `x` only `take` is asked for.
    """
    if not isinstance(estimator, Pipeline):
        return estimator.fit(take(x, rows), target, **({} if weight is None else {"sample_weight": weight}))
    *before, (name, last) = estimator.steps
    if before:
        first = Pipeline(before, memory=estimator.memory)
        x = first.fit_transform(x, hard)
        before = first.steps
    return Pipeline([*before, (name, fit_rows(last, x, hard, rows, target, weight))])


def last_step(estimator: Any) -> Any:
    """The estimator at the end of a pipeline, or the estimator itself."""
    return last_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def seeded(estimator: Any, seed: int) -> Any:
    """A copy with every open `random_state`, nested ones included, set to `seed`."""
    copy = clone(estimator)
    keys = [k for k in copy.get_params() if k == "random_state" or k.endswith("__random_state")]
    copy.set_params(**{key: seed for key in keys if copy.get_params()[key] is None})
    return copy


def _trials(estimator: Any, values: bool, samples: Callable[[int], tuple[Any, Array]]) -> str:
    """The mode that `_try` finds on as many rows as the estimator needs to tell any apart: large leaves need many."""
    mode = ""
    for rows in _ROWS:
        mode, constant = _try(estimator, values, *samples(rows), rows)
        if not constant:
            break
    return mode


def _try(estimator: Any, values: bool, x: Any, y: Array, length: int) -> tuple[str, bool]:
    """One of MODES, and whether the fits that it was found by say the same of all rows.

    The mode is empty where the estimator cannot be fitted to these samples at all.
    """
    rows = np.resize(np.arange(count(x)), length)
    right = y[rows]
    if not values and len(np.unique(right)) < 2:
        right = np.arange(len(rows)) % 2
    wrong = -right if values else _next_class(right)
    fit = partial(_predicted, estimator, values, partial(take, x), rows)
    twice, both = np.concatenate([rows, rows]), np.concatenate([right, wrong])
    try:
        without = fit(twice, np.concatenate([right, right]), None)
        mixed = fit(twice, both, None)
    except Exception:
        return "", False
    try:
        weighted = fit(twice, both, np.repeat([1.0, _LITTLE], len(rows)))
        thrice = fit(np.repeat(rows, 3), np.repeat(right, 3, axis=0), np.full(3 * len(rows), 1 / 3))
        plain = fit(rows, right, np.ones(len(rows)))
    except Exception:
        return "sharpened", False
    constant = not np.ptp(thrice, axis=0).any() and not np.ptp(plain, axis=0).any()
    if np.abs(weighted - without).sum() >= np.abs(weighted - mixed).sum():
        return "sharpened", constant
    counts_rows = np.abs(thrice - plain).mean() > _SAME
    return "largest" if counts_rows and not values else "repeated", constant


def _predicted(
    estimator: Any,
    values: bool,
    samples: Callable[[Array], Any],
    seen: Array,
    rows: Array,
    target: Array,
    weight: Array | None,
) -> Array:
    """What a copy predicts for the samples `seen` after it was fitted to `rows`."""
    fitted = seeded(estimator, 0).fit(samples(rows), target, **({} if weight is None else {"sample_weight": weight}))
    return np.asarray(fitted.predict(samples(seen)) if values else fitted.predict_proba(samples(seen)), np.float64)


def _next_class(y: Array) -> Array:
    """Of every sample another class than its own."""
    known, numbers = np.unique(y, return_inverse=True)
    return np.asarray(known[(numbers + 1) % len(known)])


def _sample(values: bool, rows: int) -> tuple[Array, Array]:
    """Samples of three classes with a fifth of the labels wrong, or with noisy values."""
    draw = stream(0, "soft labels")
    y = np.arange(rows) % _CLASSES
    x = draw.normal(0, 1, (rows, 4)) + 1.5 * np.eye(_CLASSES, 4)[y]
    wrong = draw.random(rows) < 0.2
    return x, (x[:, 0] + x[:, 1] + wrong if values else np.where(wrong, (y + 1) % _CLASSES, y))


def _remembered(what: str, estimator: Any, values: bool, find: Callable[[], Any]) -> Any:
    key = (what, values, type(estimator), str(estimator.get_params()))
    if key not in _KNOWN:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a trial; those of the fit itself are the user's
            _KNOWN[key] = find()
    return _KNOWN[key]
