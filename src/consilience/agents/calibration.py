"""Calibration of one agent: what the rows that its models have not seen say of its predictions.

At home the model is the pool  p(x) ~ together(x)^b frequency^g alone(x)^a,  on the target domain  together(x)^b'. The
weights b, g, a and b' are fitted with a prior, at which they stay without rows kept back. For values it is
(1 - a) together(x) + a alone(x), and the model trained together as it is on the target domain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.core import calibration as core
from consilience.tasks.protocol import Array, Task

HEDGE, STRENGTH = 0.125, 5.0
"""The prior of b' is 1 + HEDGE log (classes / 2): averages of predictions hedge more among many classes. With dual
variables the second term is half as large. That of b is 1, or the same as that of b' where nobody trained alone."""
FREQUENCY, ALONE = (0.2, 10.0), (0.15, 10.0)
"""Prior of g, and of a / (1 + log (classes / 2)), and its strength (research/home.md)."""
POOLED_FREQUENCY = (1.0, 10.0)
"""That of g with dual variables: agents then come to one model, which does not know the class frequencies at home."""
LEAST_ALONE = 0.05
"""Probabilities of the model trained alone are not taken to be smaller: on few rows it is far too sure of itself."""
MIXED = (0.1, 5.0)
"""Prior of the weight of the model trained alone where values are mixed, and its strength in samples."""
LEAST_WEIGHT = 0.1
"""Of the model trained together on the target domain: calibration never changes which class is the most probable."""
PLACES = ("home", "target")
MOST_SCORES = 1000
"""Conformal scores that are stored, at most."""


@final
@dataclass(frozen=True)
class Calibration:
    """The weights of an agent's models at home and on the target domain.

    >>> from consilience.tasks import task_named
    >>> prior = calibrated(task_named("classification"), [30, 10, 10])
    >>> prior.on_target(np.array([[0.8, 0.1, 0.1]], np.float32)).round(2).tolist()
    [[0.8199999928474426, 0.09000000357627869, 0.09000000357627869]]
    """

    task: Task
    home: Array
    """(questions, terms): weights of the model trained together, of the class frequencies, and of the model trained
    alone, if there is one; for values the share of the model trained alone (1, 1)."""
    target: Array
    """(questions, 1): the weight of the model trained together; 1 for values."""
    frequency: Array
    """Log class frequencies at home (questions, classes)."""
    scores: dict[str, Array] = field(default_factory=dict)
    """Conformal scores of the rows kept back, by place (rows, 1), for values (rows, outputs); sorted."""

    @property
    def needs_alone(self) -> bool:
        """Whether the home model has the model trained alone in it."""
        return bool(self.home.shape[1] == 3 if len(self.frequency) else self.home[0, 0] != 0)

    def at_home(self, together: Array, alone: Array | None) -> Array:
        """Predictions of the home model from those of the two models (samples, outputs)."""
        if not self.task.question_classes(together.shape[1]):
            mixed = together if alone is None else together + self.home[0, 0] * (alone - together)
            return np.asarray(mixed, dtype=np.float32)
        terms = _terms(self.task, together, alone, self.frequency)
        return self._joined(self.home, terms)

    def on_target(self, together: Array) -> Array:
        """Calibrated predictions of the model trained together."""
        if not self.task.question_classes(together.shape[1]):
            return together
        return self._joined(self.target, [terms[:1] for terms in _terms(self.task, together, None, self.frequency)])

    def _joined(self, weights: Array, terms: Sequence[Array]) -> Array:
        answers = [core.pool(w, z) for w, z in zip(weights, terms, strict=True)]
        return np.asarray(self.task.join(answers), dtype=np.float32)

    def thresholds(self, place: str, coverage: float) -> Array:
        """The conformal threshold of each column of the scores; an error where too few rows were kept back."""
        scores = self.scores.get(place, np.zeros((0, 1)))
        thresholds = np.array([core.conformal_threshold(column, coverage) for column in scores.T])
        if not np.isfinite(thresholds).all() or not len(scores):
            raise ConsilienceError(
                f"sets that hold the truth in {coverage:.0%} of cases need more rows that no model has seen: there are "
                f"{len(scores)}. Networks can keep some back (training.kept_back=0.2)."
            )
        return thresholds

    def sets(self, f: Array, place: str, coverage: float) -> Array:
        """Which classes may be true (samples, classes); for values the ends of an interval (samples, outputs, 2)."""
        thresholds = self.thresholds(place, coverage)
        if self.task.has_classes:
            return core.prediction_sets(f, float(thresholds[0]))
        return np.stack([f - thresholds, f + thresholds], axis=-1)

    def table(self) -> dict[str, Any]:
        """As JSON can have it."""
        arrays = {"home": self.home, "target": self.target, "frequency": self.frequency}
        return {key: array.tolist() for key, array in arrays.items()} | {
            "scores": {place: scores.tolist() for place, scores in self.scores.items()}
        }


def calibration_from(table: Mapping[str, Any], task: Task, outputs: int) -> Calibration:
    """The calibration in such a table; a ConsilienceError if it does not fit the task."""
    try:
        arrays = {key: np.array(table[key], dtype=np.float64) for key in ("home", "target", "frequency")}
        scores = {str(place): np.array(rows, dtype=np.float64) for place, rows in table["scores"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConsilienceError(f"its calibration cannot be read ({error})") from None
    questions, classes = task.question_count(outputs), task.question_classes(outputs)
    widths = (2, 3) if classes else (1,)
    columns = 1 if classes else outputs
    fits = (
        arrays["home"].ndim == 2
        and arrays["home"].shape[0] == questions
        and arrays["home"].shape[1] in widths
        and arrays["target"].shape == (questions, 1)
        and arrays["frequency"].size == (questions * classes)
        and all(place in PLACES and rows.shape == (len(rows), columns) for place, rows in scores.items())
        and all(np.isfinite(array).all() for array in (*arrays.values(), *scores.values()))
    )
    if not fits:
        raise ConsilienceError(f"its calibration does not fit {questions} questions of {classes} classes")
    arrays["frequency"] = arrays["frequency"].reshape(questions if classes else 0, classes)
    return Calibration(task, **arrays, scores=scores)


def calibrated(
    task: Task,
    counts: Sequence[int],
    together: Array | None = None,
    y: Array | None = None,
    alone: Array | None = None,
    has_alone: bool | None = None,
    pooled: bool = False,
) -> Calibration:
    """The calibration that rows kept back lead to; without rows that of the prior.

    Args:
        task: What is learned.
        counts: Private samples of each class; for labels those that have each, and their total at the end.
        together: Predictions of the model trained together for rows that it has not seen (rows, outputs).
        y: Their labels.
        alone: Predictions of the model trained alone for the same rows.
        has_alone: Whether there is a model trained alone; by default, whether `alone` is given.
        pooled: Whether dual variables made the agents one model.
    """
    has_alone = alone is not None if has_alone is None else has_alone
    if not task.question_classes(max(1, len(counts))):
        return _of_values(task, together, y, alone, has_alone)
    frequency = _frequency(task, counts)
    rows = 0 if together is None or y is None else len(y)
    prior, target_prior = _priors(frequency.shape[1], has_alone, pooled)
    known = [*_terms(task, together, alone, frequency)] if together is not None and rows else []
    labels = task.questions(task.targets(y, together.shape[1])) if together is not None and y is not None else []
    home, target = [], []
    for question in range(len(frequency)):
        if rows:
            terms, truth = known[question], labels[question].argmax(axis=1)
            home.append(core.pool_weights(terms, truth, *prior))
            target.append(np.maximum(core.pool_weights(terms[:1], truth, *target_prior), LEAST_WEIGHT))
        else:
            home.append(prior[0])
            target.append(target_prior[0])
    fitted = Calibration(task, np.stack(home), np.stack(target), frequency)
    if not rows or together is None or y is None or not task.has_classes:
        return fitted
    by_place = {"home": fitted.at_home(together, alone), "target": fitted.on_target(together)}
    scores = {place: _stored(core.class_scores(f, y)[:, None]) for place, f in by_place.items()}
    return Calibration(task, fitted.home, fitted.target, frequency, scores)


def _priors(classes: int, has_alone: bool, pooled: bool) -> tuple[Array, Array]:
    """The weights at home (b, g, a) and on the target domain (b',) without rows; and the strength of each below it."""
    more = float(np.log(classes / 2))
    hedge = (1 + HEDGE * more * (0.5 if pooled else 1.0), STRENGTH)
    frequency = POOLED_FREQUENCY if pooled else FREQUENCY
    home = [(1.0, STRENGTH), frequency, (ALONE[0] * (1 + more), ALONE[1])] if has_alone else [hedge, frequency]
    return np.array(home).T, np.array([hedge]).T


def _of_values(
    task: Task, together: Array | None, y: Array | None, alone: Array | None, has_alone: bool
) -> Calibration:
    nothing, share = np.zeros((0, 0)), MIXED[0] if has_alone else 0.0
    if together is None or y is None or not len(y):
        return Calibration(task, np.array([[share]]), np.ones((1, 1)), nothing)
    truth = np.asarray(y, dtype=np.float64).reshape(together.shape)
    if alone is not None:
        share = core.mixture_weight(together, alone, truth, *MIXED)
    home = together if alone is None else together + share * (alone - together)
    scores = {"home": _stored(np.abs(truth - home)), "target": _stored(np.abs(truth - together))}
    return Calibration(task, np.array([[share]]), np.ones((1, 1)), nothing, scores)


def _stored(scores: Array) -> Array:
    """Sorted scores, of many the quantiles (rows, columns)."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=0)
    if len(ordered) <= MOST_SCORES:
        return ordered
    return np.asarray(ordered[np.ceil(np.arange(1, MOST_SCORES + 1) / MOST_SCORES * len(ordered)).astype(int) - 1])


def _frequency(task: Task, counts: Sequence[int]) -> Array:
    """Log class frequencies of each question (questions, classes)."""
    if task.has_classes:
        return core.frequency_term(counts)[None]
    *yes, samples = counts
    return np.stack([core.frequency_term([samples - number, number]) for number in yes])


def _terms(task: Task, together: Array, alone: Array | None, frequency: Array) -> list[Array]:
    """The terms of the pool for each question (terms, samples, classes)."""
    first, second = task.questions(together), [] if alone is None else task.questions(alone)
    terms = []
    for question, base in enumerate(frequency):
        log = core.log_term(first[question])
        others = [core.log_term(second[question], LEAST_ALONE)] if second else []
        terms.append(np.stack([log, np.broadcast_to(base, log.shape), *others]))
    return terms
