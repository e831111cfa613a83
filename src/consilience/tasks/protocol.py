"""What a task says of labels and predictions, so that agents, methods and reports need not ask which one it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.base.rows import Array as Array
from consilience.base.rows import Rows, count, labelled_rows
from consilience.core.bootstrap import Sums
from consilience.core.many_scores import Predictions

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Score:
    """One way of measuring predictions against labels."""

    name: str
    """Of its columns: NAME_shared, NAME_target, NAME_own."""
    title: str
    measure: Callable[[Array, Array], float]
    """Of predictions (samples, outputs) and labels; NaN where it is not defined."""
    higher_is_better: bool = True
    sums: Sums | None = None
    """The same as a function of sums over samples, if it is one: then its interval is found much faster."""
    of_many: Callable[[Predictions], Array] | None = None
    """The same for many agents in one pass (agents,), to the bit."""

    def of_all(self, p: Predictions) -> Array:
        """The score of every agent (agents,)."""
        if self.of_many is not None and p.fits:
            return self.of_many(p)
        return np.array([self.measure(f, p.y) for f in p.f])


class Task(Protocol):
    """Classification, regression, multi-label classification, or another package's."""

    name: str
    scores: Sequence[Score]
    """The first is the one that tables and progress show."""
    trust: str
    """The trust rule that is used unless another is asked for."""
    sums_to_one: bool
    """Whether a row of predictions is one distribution over the outputs."""
    has_classes: bool
    """Whether the label of a sample is one class of several."""
    named_outputs: bool
    """Whether outputs have names: classes and labels have, values have not."""
    scale: str
    """On which scale dual variables accumulate disagreement: "classes", "labels" or "values" (core/duals.py)."""
    noisy: bool
    """Whether agents measure the noise in their own labels, in the unit of the predictions, for trust."""
    outputs_are: str
    """What the outputs are called in messages, such as "classes"."""

    def labels(self, y: Array) -> Array:
        """Private labels in the form that the other functions take; a ConsilienceError if they cannot be such."""

    def outputs(self, y: Array) -> int:
        """The number of outputs that these labels show; there may be more."""

    def counts(self, y: Array) -> list[int]:
        """Samples of each class, for reports; empty where there are no classes."""

    def problem(self, f: Array) -> tuple[NDArray[np.bool_], str]:
        """Rows of `f` that are no predictions, and what is wrong with the first of them; all are finite."""

    def targets(self, y: Array, outputs: int) -> Array:
        """Labels as predictions that are certain (samples, outputs)."""

    def distance(self, f: Array, psi: Array) -> float:
        """dist(f, psi) of the local objective (label `step-local-update`): mean over samples."""

    def probabilities(self, f: Array) -> Array | None:
        """Predictions of all agents as distributions (agents, rows, classes), for trust; None for other values."""

    def questions(self, targets: Array) -> list[Array]:
        """For estimators: soft targets (samples, classes) of each question that one estimator answers, or values."""

    def question_count(self, outputs: int) -> int:
        """The number of these questions."""

    def question_classes(self, outputs: int) -> int:
        """The number of classes in each question; 0 where answers are values."""

    def join(self, answers: list[Array]) -> Array:
        """Predictions from the estimators' answers to those questions."""

    def predictions(self, out: "Tensor") -> "Tensor":
        """For networks: predictions from what the network returns."""

    def loss(self, out: "Tensor", target: "Tensor") -> "Tensor":
        """For networks: the mean loss of their output against labels, or against pseudo-labels."""

    def stacked_loss(self, out: "Tensor", target: "Tensor") -> "tuple[Tensor, Tensor]":
        """For networks trained in batches: the loss of each row (models, samples), and its gradient by `out`.

        `target` are `targets` or pseudo-labels (models, samples, outputs); `out` may be overwritten.
        """


def require_classes(task: Task, message: str) -> None:
    """Raises an error with this message unless the label of a sample is one class."""
    if not task.has_classes:
        raise ConsilienceError(message)


def checked_predictions(name: str, f: Array, samples: int, outputs: int, task: Task) -> Array:
    """`f` in float32 if it is what an agent may publish; otherwise an error that says what is wrong with it."""
    f = np.asarray(f)
    if f.ndim != 2 or len(f) != samples:
        raise ConsilienceError(
            f"agent {name!r}: predictions have shape {f.shape}, but there are {samples} samples. "
            "Predict every sample once, in order."
        )
    if f.shape[1] != outputs:
        raise ConsilienceError(
            f"agent {name!r}: predictions have {f.shape[1]} columns, the others have {outputs} {task.outputs_are}. "
            f"All agents must predict the same {task.outputs_are}."
        )
    if not np.isfinite([f.min(initial=0), f.max(initial=0)]).all():
        bad = ~np.isfinite(f).all(axis=1)
        raise ConsilienceError(
            f"agent {name!r}: {bad.sum()} of {samples} rows are not finite (first: row {bad.argmax()}). "
            "Did its training diverge, or do its inputs hold missing values?"
        )
    bad, what = task.problem(f)
    if bad.any():
        raise ConsilienceError(f"agent {name!r}: {bad.sum()} of {samples} rows are {what}")
    return f.astype(np.float32, copy=False)


@dataclass(frozen=True)
class Labelled:
    """Private data, checked."""

    x: Rows
    """As they were given."""
    y: Array
    """Labels as the task has them."""
    outputs: int
    """That the labels show."""
    counts: list[int]
    """Samples of each class, where there are classes."""
    class_names: tuple[str, ...] = ()
    """Of classes or labels, where the labels tell them."""


def labelled(name: str, task: Task, x: Rows, y: Any, class_names: Sequence[str] = ()) -> Labelled:
    """Private data of the agent `name`, with labels as the task has them.

    `y` may be the name of a column of `x`. Labels that are words or yes and no are numbered in the order of
    `class_names`, or of the alphabet.
    """
    who = f"agent {name!r}" if name else "an agent"
    x, y = labelled_rows(x, y, who)
    if count(x) == 0:
        raise ConsilienceError(f"{who} has no training data. Leave it out, or give it samples.")
    if count(x) != len(y):
        raise ConsilienceError(f"{who}: {count(x)} samples but {len(y)} labels. Give one label per sample.")
    try:
        y, names = numbered(task, y, class_names)
        y = task.labels(y)
    except ConsilienceError as error:
        raise ConsilienceError(f"{who}: {error}") from None
    return Labelled(x, y, max(task.outputs(y), len(names)), task.counts(y), names)


def numbered(task: Task, y: Any, names: Sequence[str] = ()) -> tuple[Array, tuple[str, ...]]:
    """Labels as numbers, and the names of the classes; without names where the labels are numbers already.

    >>> from consilience.tasks import task_named
    >>> numbered(task_named("classification"), ["no", "yes", "no"])
    (array([0, 1, 0]), ('no', 'yes'))
    """
    columns = tuple(str(column) for column in getattr(y, "columns", ()))
    y = np.asarray(y)
    names = tuple(str(class_name) for class_name in names)
    missing = _missing(y)
    if len(missing):
        if len(missing) == 1:
            raise ConsilienceError(f"the label of row {missing[0]} is missing. Remove that sample.")
        raise ConsilienceError(f"{len(missing)} labels are missing (first: row {missing[0]}). Remove those samples.")
    if not task.has_classes:
        return y, names or (columns if task.named_outputs else ())
    if y.dtype.kind == "O" and all(isinstance(label, int | np.integer) for label in y.ravel()):
        y = y.astype(np.bool_ if all(isinstance(label, bool | np.bool_) for label in y.ravel()) else np.int64)
    if y.dtype.kind not in "OUTSb" or y.ndim != 1:
        return y, names
    words = [str(label) for label in y.tolist()]
    names = names or (("False", "True") if y.dtype.kind == "b" else tuple(sorted(set(words))))
    numbers = {name: number for number, name in enumerate(names)}
    unknown = [word for word in words if word not in numbers]
    if unknown:
        raise ConsilienceError(f"the label {unknown[0]!r} is none of the classes {', '.join(names)}.")
    return np.array([numbers[word] for word in words], dtype=np.int64), names


def _missing(y: Array) -> NDArray[np.intp]:
    """Rows without a label, or with one that is not a number."""
    if y.ndim == 0 or y.dtype.kind not in "fO":
        return np.zeros(0, dtype=np.intp)
    gaps = np.isnan(y) if y.dtype.kind == "f" else np.frompyfunc(_is_missing, 1, 1)(y).astype(np.bool_)
    return np.flatnonzero(gaps.reshape(len(y), -1).any(axis=1))


def _is_missing(label: Any) -> bool:
    """None, NaN, or a gap of pandas."""
    return (
        label is None or type(label).__name__ in ("NAType", "NaTType") or bool(np.ndim(label) == 0 and label != label)
    )
