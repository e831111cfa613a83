"""Fitted estimators: scikit-learn's through skops, XGBoost's and LightGBM's in the formats of these libraries."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from consilience.agents.input_cache import for_estimator
from consilience.base.errors import ConsilienceError
from consilience.base.rows import count
from consilience.export import boosters, trusted
from consilience.export.checks import reading_model
from consilience.export.manifest import Part
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Task

Predict = Callable[[Any], Array]


class Answer(Protocol):
    """A fitted estimator and the classes that it knows; without an estimator, the one class that there is."""

    known: Array
    estimator: Any


class HasEstimators(Protocol):
    """An agent around fitted estimators, one for each question of its task."""

    name: str
    task: Task
    answers: Sequence[Answer]


def write(agent: HasEstimators) -> tuple[list[Part], dict[str, bytes]]:
    """The files of an agent's estimators."""
    parts: list[Part] = []
    files: dict[str, bytes] = {}
    for question, answer in enumerate(agent.answers):
        known = tuple(int(number) for number in answer.known)
        if answer.estimator is None:
            parts.append(Part("estimator", "constant", question=question, known=known))
            continue
        before, last = _split(answer.estimator)
        if before is not None:
            name = f"transform-{question}.skops"
            files[name] = trusted.dump(before, f"agent {agent.name!r}")
            parts.append(Part("transform", "skops", name, question))
        form = _form(last)
        ending, dump, _ = _FORMATS[form]
        name = f"estimator-{question}.{ending}"
        files[name] = dump(last, f"agent {agent.name!r}")
        parts.append(Part("estimator", form, name, question, known))
    return parts, files


def read(parts: Sequence[Part], files: dict[str, bytes], task_name: str, outputs: int) -> Predict:
    """What predicts, from the files of an agent's estimators."""
    task = task_named(task_name)
    classes = task.question_classes(outputs)
    answers: list[Callable[[Any], Array]] = []
    for question in range(1 + max(piece.question for piece in parts)):
        own = [piece for piece in parts if piece.question == question]
        steps = [trusted.load(files[piece.file], piece.file) for piece in own if piece.role == "transform"]
        [last] = [piece for piece in own if piece.role == "estimator"]
        answers.append(_answer(steps, last, files, classes))

    def predict(x: Any) -> Array:
        x = for_estimator("the model", x)
        predictions = [answer(x) for answer in answers]
        return predictions[0].reshape(len(predictions[0]), -1) if not classes else task.join(predictions)

    return predict


def _answer(steps: list[Any], piece: Part, files: dict[str, bytes], classes: int) -> Predict:
    """The answer to one question: probabilities (samples, classes), or with 0 classes values."""
    known = np.array(piece.known, dtype=np.intp)
    if classes and (not len(known) or known.min() < 0 or known.max() >= classes):
        raise ConsilienceError(f"{piece.file or 'a constant'} names unknown classes. Export the model again.")
    estimate = None
    if piece.form != "constant":
        estimate = _FORMATS[piece.form][2](files[piece.file], piece.file, bool(classes))

    def answer(x: Any) -> Array:
        samples = count(x)
        for step in steps:
            x = step.transform(x)
        if not classes:
            return np.asarray(estimate(x) if estimate else None, dtype=np.float32)
        proba = np.zeros((samples, classes), dtype=np.float32)
        proba[:, known] = 1.0 if estimate is None else estimate(x)
        return proba

    return answer


def _split(estimator: Any) -> tuple[Any, Any]:
    """The steps before a foreign last step of a pipeline, which go through skops alone; and the estimator."""
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline) and _form(estimator.steps[-1][1]) != "skops":
        before = Pipeline(estimator.steps[:-1]) if len(estimator.steps) > 1 else None
        return before, estimator.steps[-1][1]
    return None, estimator


def _form(estimator: Any) -> str:
    """xgboost and lightgbm for the estimators of these libraries themselves, skops for all others."""
    home = type(estimator).__module__.partition(".")[0]
    return home if home in ("xgboost", "lightgbm") else "skops"


def _write_xgboost(estimator: Any, whose: str) -> bytes:
    _check_objective(estimator, whose)
    return bytes(estimator.get_booster().save_raw(raw_format="json"))


def _read_xgboost(data: bytes, where: str, classes: bool) -> Predict:
    xgboost = _library("xgboost")
    estimator = xgboost.XGBClassifier() if classes else xgboost.XGBRegressor()
    with reading_model(where, "XGBoost"):
        estimator.load_model(bytearray(boosters.checked_xgboost(data)))
    predict: Predict = estimator.predict_proba if classes else estimator.predict
    return predict


def _write_lightgbm(estimator: Any, whose: str) -> bytes:
    _check_objective(estimator, whose)
    text: str = estimator.booster_.model_to_string()
    return text.encode()


def _read_lightgbm(data: bytes, where: str, classes: bool) -> Predict:
    lightgbm = _library("lightgbm")
    with reading_model(where, "LightGBM"):
        booster = lightgbm.Booster(model_str=boosters.checked_lightgbm(data))

    def predict(x: Any) -> Array:
        f = np.asarray(booster.predict(x))
        return np.stack([1 - f, f], axis=1) if classes and f.ndim == 1 else f

    return predict


def _read_skops(data: bytes, where: str, classes: bool) -> Predict:
    estimator = trusted.load(data, where)
    predict: Predict = estimator.predict_proba if classes else estimator.predict
    return predict


def _check_objective(estimator: Any, whose: str) -> None:
    """Refuses a loss of the user's own: what it makes of the scores is Python, which no file holds."""
    if callable(getattr(estimator, "objective", None)):
        raise ConsilienceError(
            f"{whose}: {type(estimator).__name__} has an objective that is a Python function, which cannot be stored. "
            "Use one that the library names."
        )


def _library(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise ConsilienceError(f"this model needs {name}: pip install 'consilience[boost]'.") from error


_FORMATS: dict[str, tuple[str, Callable[[Any, str], bytes], Callable[[bytes, str, bool], Predict]]] = {
    "skops": ("skops", trusted.dump, _read_skops),
    "xgboost": ("json", _write_xgboost, _read_xgboost),
    "lightgbm": ("txt", _write_lightgbm, _read_lightgbm),
}
"""By the form of a file: its ending, what writes it and what reads it."""
