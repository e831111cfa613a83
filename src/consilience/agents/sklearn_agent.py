"""An agent whose model is any scikit-learn style estimator, XGBoost's and LightGBM's included."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from sklearn.base import is_regressor

from consilience.agents.classes import renumbered
from consilience.agents.input_cache import Reader, Transform, for_estimator
from consilience.agents.noise import folds, noise_of
from consilience.agents.protocol import Losses, agent_repr
from consilience.agents.soft_labels import (
    MODES,
    fit_rows,
    gives_probabilities,
    labelled_rows,
    last_step,
    mode_of,
    seeded,
)
from consilience.agents.unreadable import explained, in_order
from consilience.base.errors import ConsilienceError
from consilience.base.options import stable_text
from consilience.base.rows import Rows, count, fingerprint, join, take
from consilience.core.streams import stream
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Task, labelled

_NO_MATTER = ("n_jobs", "verbose", "memory", "cache_size")
"""Parameters of estimators that decide how fast they are, and not what they learn."""


@dataclass(frozen=True)
class _Answer:
    """A fitted estimator and the classes that it knows; without an estimator, the one class that there is."""

    known: Array
    estimator: Any = None

    def to(self, x: Any, classes: int) -> Array:
        """Probabilities (samples, classes)."""
        proba = np.zeros((count(x), classes), dtype=np.float32)
        proba[:, self.known] = 1.0 if self.estimator is None else self.estimator.predict_proba(x)
        return proba


@final
class SklearnAgent:
    """Refits `estimator` in every round on private (x, y) and the pseudo-labelled shared data.

    Args:
        estimator: Any classifier with predict_proba, or any regressor.
        x: The private rows, as the estimator takes them: an array, a DataFrame, a list of texts, a sparse matrix.
        y: Their labels, numbers or words, or the name of a column of `x`. A table of zeros and ones is multi-label:
            then each label has an estimator of its own.
        name: Unique among the agents; by default its number.
        task: By default it follows from the estimator and `y`.
        classes: Names of the classes, in order, or their number; needed only where no agent's data show all.
        kind: How tables call the model; by default the class of the estimator.
        seed: Of the agent's random numbers.
        transform: Converts raw rows to what the estimator takes, or selects features.
        soft_labels: How it learns from pseudo-labels; by default what the estimator can do (`agents/soft_labels.py`).
            "repeated" is the local objective (label `step-local-update`) exactly: private rows weigh 1 each, and each
            shared row stands once per class, weighted lam n/n* psi_c. "largest", for estimators that count rows, keeps
            of these rows the one with the largest psi_c. Estimators without weights get round(lam n) shared rows with
            classes drawn from psi_c^2, "sharpened", or from psi, "drawn".

    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = np.array([[0.0], [1.0], [2.0], [3.0]]), ["no", "no", "yes", "yes"]
    >>> agent = SklearnAgent(LogisticRegression(), x, y, name="a")
    >>> _ = agent.train(np.array([[1.5]]), np.array([[0.5, 0.5]]), lam=0.5)
    >>> agent.class_names[agent.predict(np.array([[9.0]])).argmax()]
    'yes'
    """

    untouched = ("_x", "_y", "rows", "_last", "transform")
    """Attributes that copies of the agent share, such as its data."""

    def __init__(
        self,
        estimator: Any,
        x: Rows,
        y: Any = None,
        name: str = "",
        *,
        task: str | Task = "",
        classes: int | Sequence[str] = 0,
        kind: str = "",
        seed: int = 0,
        transform: Transform | None = None,
        soft_labels: str = "auto",
    ) -> None:
        self._estimator = estimator
        self._values = is_regressor(estimator)
        self.task = task_named(task or _task_of(estimator, y))
        self.name, self.seed, self.transform = name, seed, transform
        self._label = y if isinstance(y, str) else str(getattr(y, "name", None) or "")
        who = self._who
        if not self._values and not gives_probabilities(estimator):
            raise ConsilienceError(
                f"{who}: {type(estimator).__name__} has no predict_proba, and consensus needs probabilities. "
                "Wrap it in sklearn.calibration.CalibratedClassifierCV."
            )
        if soft_labels not in ("auto", *MODES):
            raise ConsilienceError(f"{who}: soft_labels is {soft_labels!r}; it must be auto, {', '.join(MODES)}.")
        self.kind = kind or self._model
        named = () if isinstance(classes, int) else tuple(classes)
        data = labelled(name, self.task, x, y, named)
        self.class_names, self.rows = data.class_names, data.x
        self._read = Reader(who, transform, partial(for_estimator, who), _way)
        self._x, self._y = self._read(data.x), data.y
        self.samples = len(self._y)
        self.class_counts = data.counts
        self.outputs = max(data.outputs, classes if isinstance(classes, int) else len(classes))
        self.parameters: int | None = None
        self._noise: float | None = None if self.task.noisy else 1.0
        self._soft_labels = self._given_soft_labels = soft_labels
        self._answers: list[_Answer] = []
        self._round = 0
        self._last: tuple[Rows, Array, float] | None = None
        self._on_own = False
        """Whether the last pseudo-labels were for its own rows."""

    def __repr__(self) -> str:
        return agent_repr(self)

    @property
    def _who(self) -> str:
        return f"agent {self.name!r}" if self.name else "an agent"

    @property
    def _model(self) -> str:
        return type(last_step(self._estimator)).__name__

    @property
    def labels(self) -> Array:
        """The private labels."""
        return self._y

    @property
    def soft_labels(self) -> str:
        """How it learns from pseudo-labels: one of `soft_labels.MODES`."""
        if self._soft_labels == "auto":
            y = self._y if self._values or self._y.ndim == 1 else self._y[:, 0]
            flat = y[:, 0] if self._values and y.shape[1] == 1 else y
            self._soft_labels = mode_of(self._estimator, self._values, self._x, flat)
        return self._soft_labels

    @property
    def estimator(self) -> Any:
        """The fitted estimator; a list of them, one for each label, where samples have several.

        None stands for one that is not needed, because the data show a single class. It numbers the classes that its
        training data show: where some are missing, `answers` says which it knows.
        """
        fitted = [answer.estimator for answer in self.answers]
        return fitted[0] if len(fitted) == 1 else fitted

    @property
    def noise(self) -> float:
        """Scale of the noise in its own labels, out of sample, for trust; 1 where the task has none."""
        if self._noise is None:
            own = self.task.targets(self._y, self.outputs)
            self._noise = noise_of(self._y, folds(self.seed, self.name, self.samples), partial(self._held_out, own))
        return self._noise

    @noise.setter
    def noise(self, noise: float) -> None:
        self._noise = noise

    @property
    def answers(self) -> list[_Answer]:
        """The fitted estimator of each question of the task, with the classes that it knows."""
        if not self._answers:
            self._fit()
        return list(self._answers)

    def fingerprint(self) -> str:
        """SHA-256 of the private data, as the model takes them."""
        return fingerprint(self._x, self._y)

    def training_settings(self) -> dict[str, str]:
        """The seed, how pseudo-labels become classes, and every parameter of the estimator, nested ones included."""
        parameters = {k: v for k, v in self._estimator.get_params().items() if k.rpartition("__")[2] not in _NO_MATTER}
        return {
            "the seed": str(self.seed),
            "soft_labels": self._given_soft_labels,
            "the estimator": type(self._estimator).__qualname__,
        } | {f"the parameter {name}": stable_text(value) for name, value in parameters.items()}

    def accept_classes(self, outputs: int) -> None:
        """Sets the number of classes that it predicts, where its own data show fewer."""
        if self.task.has_classes and outputs > self.outputs:
            self.outputs = outputs

    def rename(self, class_names: tuple[str, ...]) -> None:
        """Sets the names and the order of the classes that it predicts."""
        self._y = renumbered(self.name, self._y, self.class_names, class_names, self._round > 0)
        if class_names != self.class_names:
            self._answers = []
        self.class_names, self.outputs = class_names, len(class_names)
        self.class_counts = self.task.counts(self._y)

    def predict(self, x: Rows) -> Array:
        """Class probabilities (samples, classes) or values (samples, outputs)."""
        if not self._answers:
            self._fit()
        rows = in_order(self._read(x), self._x)
        with explained(self._who, self._model, rows, self._x, self._label):
            return self._predict(rows)

    def _predict(self, x: Any) -> Array:
        if self._values:
            return _values(self._answers[0].estimator, x)
        classes = self.task.question_classes(self.outputs)
        return self.task.join([answer.to(x, classes) for answer in self._answers])

    def train(self, shared: Rows, labels: Array | None, lam: float) -> Losses:
        """Refits. Without pseudo-labels the model depends on the private data alone and is fitted only once."""
        self._round += 1
        collaborating, fitted = labels is not None and lam > 0, 0
        if collaborating or self._last is not None or not self._answers:
            rows = in_order(self._read(shared), self._x) if collaborating else None
            self._last = (rows, np.array(labels), lam) if collaborating else None
            self._on_own = collaborating and shared is self.rows
            self._fit()
            fitted = self.samples + (count(shared) if collaborating else 0)
        local = self.task.distance(self._predict(self._x), self.task.targets(self._y, self.outputs))
        if labels is None or not collaborating:
            return Losses(local, trained=fitted)
        return Losses(local, self.task.distance(self.predict(shared), labels), trained=fitted)

    def state(self) -> dict[str, Array]:
        """The last pseudo-labels and the number of rounds: the model itself is refitted from them, never unpickled."""
        saved = {"round": np.array(self._round)}
        if self._noise is not None:
            saved["noise"] = np.array(self._noise)
        if self._last is not None:
            _, labels, lam = self._last
            saved |= {"labels": labels, "lam": np.array(lam)} | ({"own": np.array(1)} if self._on_own else {})
        return saved

    def restore(self, state: dict[str, Array], shared: Rows) -> None:
        """Refits on the data of the last round."""
        self._round, self._noise = int(state["round"]), float(state["noise"]) if "noise" in state else None
        self._on_own = "own" in state
        rows = self.rows if self._on_own else shared
        self._last = (self._read(rows), state["labels"], float(state["lam"])) if "labels" in state else None
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
        x, y, weight, rows = self._x, own if self._values else own.argmax(axis=1), None, np.arange(self.samples)
        hard = y
        if self._last is not None and labels is not None:
            shared, _, lam = self._last
            each = lam * self.samples / len(labels)
            row, label, weights = labelled_rows(self.soft_labels, labels, self._values, each, draw)
            x, hard = join(x, shared), np.concatenate([y, labels if self._values else labels.argmax(axis=1)])
            rows, y = np.concatenate([rows, self.samples + row]), np.concatenate([y, label])
            if weights is not None:
                weight = np.concatenate([np.ones(self.samples), weights])
        if self._values:
            known, target = np.arange(self.outputs), y[:, 0] if self.outputs == 1 else y
            hard = hard[:, 0] if self.outputs == 1 else hard
        else:
            known, target = np.unique(y, return_inverse=True)
            if len(known) == 1:
                return _Answer(known)
        with explained(self._who, self._model, self._x, self._x):
            return _Answer(known, fit_rows(_with_neighbours(self._fresh(), len(rows)), x, hard, rows, target, weight))

    def _fresh(self) -> Any:
        return seeded(self._estimator, int(stream(self.seed, "estimator", self.name).integers(2**31)))

    def held_out(self, refit: bool = True) -> tuple[Array, Array]:
        """Predictions for every private row by estimators refitted without it, on the last pseudo-labels as well.

        No rows without `refit`, and where there are too few to fit without some of them.
        """
        f = np.zeros((self.samples, self.outputs), dtype=np.float32)
        splits = folds(self.seed, self.name, self.samples) if refit else []
        try:
            for train, test in splits:
                f[test] = self._without(train)._predict(take(self._x, test))
        except Exception:  # estimators say in many ways that they need more rows
            splits = []
        return (f, self._y) if splits else (f[:0], self._y[:0])

    def _without(self, train: Array) -> "SklearnAgent":
        """A fitted copy that has only the private rows `train`."""
        other = copy(self)
        other._x, other._y, other.samples = take(self._x, train), self._y[train], len(train)
        if self._on_own and self._last is not None:
            rows, labels, lam = self._last
            other._last = take(rows, train), labels[train], lam
        other._fit()
        return other

    def _held_out(self, own: Array, train: Array, test: Array) -> Array:
        """What an estimator that saw only the private rows `train` predicts for the private rows `test`."""
        target = own[train, 0] if self.outputs == 1 else own[train]
        fitted = fit_rows(self._fresh(), take(self._x, train), target, np.arange(len(train)), target, None)
        return _values(fitted, take(self._x, test))


def _with_neighbours(estimator: Any, rows: int) -> Any:
    """The estimator with no more neighbours than there are rows."""
    known = {key: value for key, value in estimator.get_params().items() if key.rpartition("__")[2] == "n_neighbors"}
    return estimator.set_params(
        **{key: rows for key, value in known.items() if isinstance(value, int) and value > rows}
    )


def _values(estimator: Any, x: Any) -> Array:
    return np.asarray(estimator.predict(x), dtype=np.float32).reshape(count(x), -1)


def _task_of(estimator: Any, y: Any) -> str:
    if is_regressor(estimator):
        return "regression"
    return "multilabel" if not isinstance(y, str) and np.ndim(y) == 2 else "classification"


def _way() -> str:
    return "estimator"
