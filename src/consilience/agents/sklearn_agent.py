"""An agent whose model is any scikit-learn style estimator, XGBoost's and LightGBM's included."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from consilience.agents.protocol import Losses
from consilience.core.metrics import rmse
from consilience.core.streams import stream
from consilience.errors import ConsilienceError
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Task, labelled


@dataclass(frozen=True)
class _Answer:
    """A fitted estimator and the classes that it knows; without an estimator, the one class that there is."""

    known: Array
    estimator: Any = None

    def to(self, x: Array, classes: int) -> Array:
        """Probabilities (samples, classes)."""
        proba = np.zeros((len(x), classes), dtype=np.float32)
        proba[:, self.known] = 1.0 if self.estimator is None else self.estimator.predict_proba(x)
        return proba


@final
class SklearnAgent:
    """Refits `estimator` in every round on private (x, y) and the pseudo-labelled shared data.

    Estimators that take `sample_weight` get the local objective (label `step-local-update`) exactly: private
    rows weigh 1 each, and each shared row stands once per class, weighted lam n/n* psi_c. Others get round(lam n)
    shared rows with labels drawn from their pseudo-labels. `classes` is needed only where no agent's data shows all.
    The task follows from the estimator, and with a table of zeros and ones as `y` it is multi-label: then each label
    has an estimator of its own.

    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> agent = SklearnAgent(LogisticRegression(), x, y, name="a")
    >>> _ = agent.train(np.array([[1.5]]), np.array([[0.5, 0.5]]), lam=0.5)
    >>> agent.predict(np.array([[9.0]])).argmax()
    np.int64(1)
    """

    untouched = ("_x", "_y", "_last")
    """Data, which copies of the agent share."""

    def __init__(
        self,
        estimator: Any,
        x: Array,
        y: Array,
        name: str = "",
        *,
        task: str | Task = "",
        classes: int = 0,
        kind: str = "",
        seed: int = 0,
    ) -> None:
        self._estimator = estimator
        self._values = is_regressor(estimator)
        self._weight_name = _weight_name(estimator)
        self.task = task_named(task or _task_of(estimator, y)) if not task or isinstance(task, str) else task
        if not self._values and not hasattr(estimator, "predict_proba"):
            raise ConsilienceError(
                f"agent {name!r}: {type(estimator).__name__} has no predict_proba, and consensus needs probabilities. "
                "Wrap it in sklearn.calibration.CalibratedClassifierCV."
            )
        last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        self.name, self.seed = name, seed
        self.kind = kind or type(last).__name__
        data = labelled(name, self.task, _flat(np.asarray(x)), y)
        self._x, self._y = data.x, data.y
        self.samples = len(self._y)
        self.class_counts = data.counts
        self.outputs = max(data.outputs, classes)
        self.parameters: int | None = None
        self.noise = 1.0
        self._answers: list[_Answer] = []
        self._round = 0
        self._last: tuple[Array, Array, float] | None = None

    def widen(self, outputs: int) -> None:
        """From now on predicts so many classes, though its own data show fewer."""
        if self.task.sums_to_one and outputs > self.outputs:
            self.outputs = outputs

    def predict(self, x: Array) -> Array:
        """Class probabilities (samples, classes) or values (samples, outputs)."""
        x = _flat(x)
        if not self._answers:
            self._fit()
        if self._values:
            return np.asarray(self._answers[0].estimator.predict(x), dtype=np.float32).reshape(len(x), -1)
        classes = self.outputs if self.task.sums_to_one else 2
        return self.task.join([answer.to(x, classes) for answer in self._answers])

    def train(self, shared: Array, labels: Array | None, lam: float) -> Losses:
        """Refits. Without pseudo-labels the model depends on the private data alone and is fitted only once."""
        self._round += 1
        collaborating = labels is not None and lam > 0
        if collaborating or self._last is not None or not self._answers:
            self._last = (_flat(shared), np.array(labels), lam) if collaborating else None
            self._fit()
        own = self.predict(self._x)
        if self.task.noisy:
            self.noise = max(rmse(own, self._y), 1e-6)
        local = self.task.distance(own, self.task.targets(self._y, self.outputs))
        if labels is None or not collaborating:
            return Losses(local)
        return Losses(local, self.task.distance(self.predict(shared), labels))

    def state(self) -> dict[str, Array]:
        """The last pseudo-labels and the number of rounds: the model itself is refitted from them, never unpickled."""
        saved = {"round": np.array(self._round), "noise": np.array(self.noise)}
        if self._last is not None:
            _, labels, lam = self._last
            saved |= {"labels": labels, "lam": np.array(lam)}
        return saved

    def restore(self, state: dict[str, Array], shared: Array) -> None:
        """Refits on the data of the last round."""
        self._round, self.noise = int(state["round"]), float(state["noise"])
        self._last = (_flat(shared), state["labels"], float(state["lam"])) if "labels" in state else None
        if self._round:
            self._fit()

    def _fit(self) -> None:
        """A fresh estimator for each question, fitted to the private data and, if there are any, the pseudo-labels."""
        draw = stream(self.seed, "labels", self.name, self._round)
        own = self.task.questions(self.task.targets(self._y, self.outputs))
        shared = [None] * len(own) if self._last is None else self.task.questions(self._last[1])
        self._answers = [self._fitted(*targets, draw) for targets in zip(own, shared, strict=True)]

    def _fitted(self, own: Array, labels: Array | None, draw: np.random.Generator) -> _Answer:
        """The answer to one question, from private targets and pseudo-labels (samples, classes or values)."""
        x, y, weight = self._x, own if self._values else own.argmax(axis=1), None
        if self._last is not None and labels is not None:
            extra_x, extra_y, extra_weight = self._pseudo_labelled(self._last[0], labels, self._last[2], draw)
            x, y = np.concatenate([x, extra_x]), np.concatenate([y, extra_y])
            if self._weight_name:
                weight = np.concatenate([np.ones(self.samples), extra_weight])
        if self._values:
            known, target = np.arange(self.outputs), y[:, 0] if self.outputs == 1 else y
        else:
            known, target = np.unique(y, return_inverse=True)
            if len(known) == 1:
                return _Answer(known)
        estimator = _seeded(self._estimator, int(stream(self.seed, "estimator", self.name).integers(2**31)))
        estimator.fit(x, target, **({self._weight_name: weight} if weight is not None else {}))
        return _Answer(known, estimator)

    def _pseudo_labelled(
        self, shared: Array, labels: Array, lam: float, draw: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Rows, labels and weights that stand for the disagreement term."""
        if self._weight_name and not self._values:
            row, label = np.nonzero(labels > 0)
            weight = lam * self.samples / len(shared) * labels[row, label]
            return shared[row], label, weight
        if self._weight_name:
            return shared, labels, np.full(len(shared), lam * self.samples / len(shared))
        count = max(1, round(lam * self.samples))
        order = np.concatenate([draw.permutation(len(shared)) for _ in range(-(-count // len(shared)))])
        row = order[:count]
        if self._values:
            return shared[row], labels[row], np.ones(count)
        steps = labels[row].cumsum(axis=1)
        label = (draw.random((count, 1)) * steps[:, -1:] >= steps).sum(axis=1)
        return shared[row], label.clip(max=labels.shape[1] - 1), np.ones(count)


def _task_of(estimator: Any, y: Array) -> str:
    """The task that an estimator and its labels make."""
    if is_regressor(estimator):
        return "regression"
    return "multilabel" if np.ndim(y) == 2 else "classification"


def _flat(x: Array) -> Array:
    """Images as rows: estimators take (samples, features)."""
    return x.reshape(len(x), -1) if x.ndim > 2 else x


def _weight_name(estimator: Any) -> str:
    """The argument of `fit` that takes sample weights; empty where there is none."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else ""
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else ""


def _seeded(estimator: Any, seed: int) -> Any:
    """A copy with every open `random_state`, nested ones included, set to `seed`."""
    copy = clone(estimator)
    keys = [k for k in copy.get_params() if k == "random_state" or k.endswith("__random_state")]
    copy.set_params(**{key: seed for key in keys if copy.get_params()[key] is None})
    return copy
