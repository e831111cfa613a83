"""An agent whose model is any scikit-learn style estimator, XGBoost's and LightGBM's included."""

from typing import Any, final

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from consilience.agents.protocol import Array, Losses, Task, checked_data
from consilience.core.metrics import cross_entropy, rmse, squared_distance
from consilience.core.streams import stream
from consilience.errors import ConsilienceError


@final
class SklearnAgent:
    """Refits `estimator` in every round on private (x, y) and the pseudo-labelled shared data.

    Estimators that take `sample_weight` get the local objective (label `step-local-update`) exactly: private
    rows weigh 1 each, and each shared row stands once per class, weighted lam n/n* psi_c. Others get round(lam n)
    shared rows with labels drawn from their pseudo-labels. `classes` is needed only where no agent's data shows all.

    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> agent = SklearnAgent(LogisticRegression(), x, y, name="a")
    >>> _ = agent.train(np.array([[1.5]]), np.array([[0.5, 0.5]]), lam=0.5)
    >>> agent.predict(np.array([[9.0]])).argmax()
    np.int64(1)
    """

    def __init__(
        self,
        estimator: Any,
        x: Array,
        y: Array,
        name: str = "",
        *,
        classes: int = 0,
        kind: str = "",
        seed: int = 0,
    ) -> None:
        self.task: Task = "regression" if is_regressor(estimator) else "classification"
        x, self._y = checked_data(name, self.task, x, y)
        self._x = _flat(x)
        if self.task == "classification" and not hasattr(estimator, "predict_proba"):
            raise ConsilienceError(
                f"agent {name!r}: {type(estimator).__name__} has no predict_proba, and consensus needs probabilities. "
                "Wrap it in sklearn.calibration.CalibratedClassifierCV."
            )
        last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        self.name, self.seed = name, seed
        self.kind = kind or type(last).__name__
        self.samples = len(self._y)
        self.class_counts = np.bincount(self._y).tolist() if self.task == "classification" else []
        self.parameters: int | None = None
        self.noise = 1.0
        seen = int(self._y.max()) + 1 if self.task == "classification" else self._y.shape[1]
        self.outputs = max(seen, classes)
        self._estimator = estimator
        self._weight_name = _weight_name(estimator)
        self._fitted: Any = None
        self._known = np.arange(0)
        self._round = 0
        self._last: tuple[Array, Array, float] | None = None

    def predict(self, x: Array) -> Array:
        """Class probabilities (samples, classes) or values (samples, outputs)."""
        x = _flat(x)
        if not self._known.size:
            self._fit()
        if self.task == "regression":
            return np.asarray(self._fitted.predict(x), dtype=np.float32).reshape(len(x), -1)
        proba = np.zeros((len(x), self.outputs), dtype=np.float32)
        proba[:, self._known] = 1.0 if self._fitted is None else self._fitted.predict_proba(x)
        return proba

    def train(self, shared: Array, labels: Array | None, lam: float) -> Losses:
        """Refits. Without pseudo-labels the model depends on the private data alone and is fitted only once."""
        self._round += 1
        collaborating = labels is not None and lam > 0
        if collaborating or self._last is not None or not self._known.size:
            self._last = (_flat(shared), np.array(labels), lam) if collaborating else None
            self._fit()
        own = self.predict(self._x)
        if self.task == "regression":
            self.noise = max(rmse(own, self._y), 1e-6)
            local = squared_distance(own, self._y)
        else:
            local = cross_entropy(own, np.eye(self.outputs, dtype=np.float32)[self._y])
        if labels is None or not collaborating:
            return Losses(local)
        distance = squared_distance if self.task == "regression" else cross_entropy
        return Losses(local, distance(self.predict(shared), labels))

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
        """A fresh estimator, fitted to the private data and, when there are any, the last pseudo-labels."""
        x, y, weight = self._x, self._y, None
        if self._last is not None:
            shared, labels, lam = self._last
            draw = stream(self.seed, "labels", self.name, self._round)
            extra_x, extra_y, extra_weight = self._pseudo_labelled(shared, labels, lam, draw)
            x, y = np.concatenate([x, extra_x]), np.concatenate([y, extra_y])
            if self._weight_name:
                weight = np.concatenate([np.ones(self.samples), extra_weight])
        if self.task == "regression":
            self._known, target = np.arange(self.outputs), y[:, 0] if self.outputs == 1 else y
        else:
            self._known, target = np.unique(y, return_inverse=True)
        self._fitted = None
        if self.task == "classification" and len(self._known) == 1:
            return
        self._fitted = _seeded(self._estimator, int(stream(self.seed, "estimator", self.name).integers(2**31)))
        extra = {self._weight_name: weight} if weight is not None else {}
        self._fitted.fit(x, target, **extra)

    def _pseudo_labelled(
        self, shared: Array, labels: Array, lam: float, draw: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Rows, labels and weights that stand for the disagreement term."""
        if self._weight_name and self.task == "classification":
            row, label = np.nonzero(labels > 0)
            weight = lam * self.samples / len(shared) * labels[row, label]
            return shared[row], label, weight
        if self._weight_name:
            return shared, labels, np.full(len(shared), lam * self.samples / len(shared))
        count = max(1, round(lam * self.samples))
        order = np.concatenate([draw.permutation(len(shared)) for _ in range(-(-count // len(shared)))])
        row = order[:count]
        if self.task == "regression":
            return shared[row], labels[row], np.ones(count)
        steps = labels[row].cumsum(axis=1)
        label = (draw.random((count, 1)) * steps[:, -1:] >= steps).sum(axis=1)
        return shared[row], label.clip(max=self.outputs - 1), np.ones(count)


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
