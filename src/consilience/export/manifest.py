"""What an exported folder says of itself: the file model.json, read strictly."""

import hashlib
import json
import re
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from consilience.agents.calibrated import MODELS
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, from_table, option, to_table
from consilience.tasks import TASKS, task_named

FILE = "model.json"
VERSION = 1
FORMS = ("scale", "table", "backbone", "safetensors", "onnx", "skops", "xgboost", "lightgbm", "constant")
LARGEST = 10_000_000
"""Bytes of a model.json that is still read."""


@dataclass(frozen=True)
class Part(Options):
    """One file of the model, and its place in it."""

    role: str = option(
        meaning="what it does: prepare (the samples) | network | transform (before an estimator) | estimator",
        one_of=("prepare", "network", "transform", "estimator"),
    )
    form: str = option(meaning="its format", one_of=FORMS)
    file: str = option("", "its name in the folder; a constant has none", pattern=r"[A-Za-z0-9._-]*")
    question: int = option(
        0, "the question that an estimator answers: which class, or which of several labels", at_least=0
    )
    known: tuple[int, ...] = option((), "the classes that an estimator knows, in the order of its answers")


@dataclass(frozen=True)
class Architecture(Options):
    """A built-in network, which is built from its name."""

    model: str = option("", "the name of the model; empty for a network of one's own")
    shape: tuple[int, ...] = option((), "of a sample")
    outputs: int = option(0, "of the network", at_least=0)


@dataclass(frozen=True)
class Inputs(Options):
    """The samples that the model takes."""

    kind: str = option("array", "what rows are", one_of=("array", "table", "texts", "sparse", "arrays"))
    shape: tuple[int, ...] = option((), "of a sample in an array")
    dtype: str = option("float32", "of the numbers in an array", pattern=r"(float|u?int)\d{1,2}|bool")
    columns: tuple[str, ...] = option((), "names of the columns, where samples come from a table")
    types: dict[str, Any] = option(None, "of the columns of a table; a list for categories")
    parts: dict[str, Any] = option(None, "of a dict of arrays: the shape of a sample in each")
    meanings: dict[str, Any] = option(None, "what each column of a raw table holds and what is done with it, in words")
    words: tuple[str, ...] = option((), "columns that hold texts alone: a file's reader leaves them as they are")
    largest: int = option(0, "the largest number in raw pixels; 0 for samples that are no raw pixels", at_least=0)
    about: str = option("", "what was done to them before, in a sentence")

    def __post_init__(self) -> None:
        for name in ("types", "parts", "meanings"):
            object.__setattr__(self, name, getattr(self, name) or {})
        super().__post_init__()

    @property
    def side(self) -> int:
        """Height and width that images are brought to; 0 where samples are no images, or not square."""
        return self.shape[-1] if len(self.shape) == 3 and self.shape[-1] == self.shape[-2] else 0


@dataclass(frozen=True)
class Manifest(Options):
    """All that is known of an exported model."""

    agent: str = option(meaning="the agent that trained it")
    kind: str = option(meaning="the kind of model")
    task: str = option(meaning="classification | regression | multilabel")
    outputs: int = option(meaning="classes, labels or values", at_least=1)
    classes: tuple[str, ...] = option(meaning="names of the classes or labels; empty for regression")
    parts: tuple[Part, ...] = option(meaning="the files that predict", at_least=1)
    training: dict[str, Any] = option(meaning="how it was trained, and on what")
    scores: dict[str, Any] = option(meaning="what was measured after training")
    versions: dict[str, Any] = option(meaning="of everything that has a say in the numbers")
    files: dict[str, Any] = option(meaning="SHA-256 of every file that predicts")
    architecture: Architecture = option(Architecture(), "of a built-in network")
    inputs: Inputs = option(Inputs(), "the samples that it takes")
    at: str = option("together", "the model that predicts unless another is asked for", one_of=tuple(MODELS))
    calibration: dict[str, Any] = option(None, "weights of the models at home and on the target domain, if known")
    alone: str = option("", "SHA-256 of alone/model.json, where the model trained alone is in the folder as well")
    advice: tuple[str, ...] = option((), "which model to use where, in words")
    format: int = option(VERSION, "version of this format", at_least=1)
    checksum: str = option("", "SHA-256 of all the rest of this file")

    def to_json(self) -> str:
        """The text of model.json."""
        table = to_table(self)
        return json.dumps(table | {"checksum": checksum(table)}, indent=2, allow_nan=False) + "\n"

    def __post_init__(self) -> None:
        object.__setattr__(self, "calibration", self.calibration or {})
        super().__post_init__()

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns of predictions are called."""
        return self.classes or tuple("value" if self.outputs == 1 else f"value {k}" for k in range(self.outputs))


def checksum(table: dict[str, Any]) -> str:
    """SHA-256 of a manifest without its own checksum."""
    rest = {key: value for key, value in table.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an exported folder, if it is as it was written; otherwise an error that says what is wrong."""
    path = folder / FILE
    if not path.is_file():
        raise ConsilienceError(
            f"{folder} holds no exported model (no {FILE}). `consilience export` writes such a folder."
        )
    if path.stat().st_size > LARGEST:
        raise ConsilienceError(f"{path} has more than {LARGEST} bytes and is not read.")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConsilienceError(f"{path} cannot be read ({error}). {_AGAIN}") from None
    if not isinstance(table, dict) or table.get("checksum") != checksum(table):
        raise ConsilienceError(f"{path} was changed after the export: its checksum does not fit. {_AGAIN}")
    if isinstance(table.get("format"), int) and table["format"] > VERSION:
        raise ConsilienceError(f"{path} is of a later version of consilience. Update consilience to read it.")
    return from_table(Manifest, table, str(path))


def checked_bytes(folder: Path, manifest: Manifest, name: str) -> bytes:
    """The bytes of one of the folder's files, if they are those that were exported."""
    path = folder / name
    try:
        if path.exists() and not path.is_file():
            raise ConsilienceError(f"{path} is no file. {_AGAIN}")
        data = path.read_bytes()
    except OSError as error:
        raise ConsilienceError(f"{path} cannot be read: {error.strerror}. {_AGAIN}") from error
    if hashlib.sha256(data).hexdigest() != manifest.files.get(name):
        raise ConsilienceError(f"{path} was changed after the export: its checksum does not fit. {_AGAIN}")
    return data


_AGAIN = "Get the folder again, or export the model again."


_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
_MOST_NUMBERS = 10**9
"""In one sample, at most."""


def check_manifest(manifest: Manifest, where: str) -> None:
    """Refuses a manifest whose parts, files, classes and inputs do not fit together."""
    for check in (_files, _parts, _classes, _inputs, _card):
        problem = check(manifest)
        if problem:
            raise ConsilienceError(f"{where}: {problem}. Get the folder again, or export the model again.")


def _files(manifest: Manifest) -> str:
    for name, checksum in manifest.files.items():
        if not _NAME.fullmatch(name) or name == FILE:
            return f"it names the file {name!r:.100}, which is not a plain name of a file in this folder"
        if not isinstance(checksum, str) or not re.fullmatch("[0-9a-f]{64}", checksum):
            return f"the checksum of {name} is no SHA-256"
    named = [piece.file for piece in manifest.parts if piece.form != "constant"]
    missing = [name for name in named if name not in manifest.files]
    if missing:
        return f"a part is in the file {missing[0]!r}, which has no checksum"
    return "" if set(manifest.files) == set(named) else "it lists files that no part of the model is in"


def _parts(manifest: Manifest) -> str:
    if manifest.task not in TASKS.names():
        return f"the task {manifest.task!r:.60} is not known"
    rest = [piece for piece in manifest.parts if piece.role != "prepare"]
    networks = [piece.form for piece in rest if piece.role == "network"]
    if networks:
        needed = "safetensors" if manifest.architecture.model else "onnx"
        fits = len(networks) == len(rest) == len(set(networks)) and set(networks) <= {"safetensors", "onnx"}
        return "" if fits and needed in networks else f"a network needs one part of the form {needed}"
    task = task_named(manifest.task)
    questions = task.question_count(manifest.outputs)
    numbers = sorted(piece.question for piece in rest if piece.role == "estimator")
    if len(numbers) != questions or numbers != list(range(questions)):
        return f"it has estimators for the questions {numbers[:5]}, and needs one for each of {questions}"
    if any(piece.question >= questions for piece in rest):
        return "it has a transform for a question that there is not"
    forms = {"estimator": ("skops", "xgboost", "lightgbm", "constant"), "transform": ("skops",)}
    wrong = [piece for piece in rest if piece.form not in forms[piece.role]]
    return f"a part of the form {wrong[0].form} cannot be its {wrong[0].role}" if wrong else ""


def _classes(manifest: Manifest) -> str:
    named = task_named(manifest.task).named_outputs
    fits = len(manifest.classes) == manifest.outputs or not (named or manifest.classes)
    return "" if fits else f"it has {len(manifest.classes)} names of classes for {manifest.outputs} outputs"


def _inputs(manifest: Manifest) -> str:
    inputs = manifest.inputs
    shapes = [inputs.shape, manifest.architecture.shape, *inputs.parts.values()]
    for shape in shapes:
        sizes: list[Any] = list(shape) if isinstance(shape, list | tuple) else [None]
        if not all(type(size) is int and size >= 0 for size in sizes) or prod(sizes) > _MOST_NUMBERS:
            return f"a sample cannot have the shape {shape!r:.60}"
    try:
        np.dtype(inputs.dtype)
    except TypeError:
        return f"there are no numbers of the kind {inputs.dtype!r:.60}"
    if inputs.kind == "sparse" and len(inputs.shape) != 1:
        return "a row of a sparse matrix has one dimension"
    if inputs.kind == "array" and inputs.columns and inputs.shape != (len(inputs.columns),):
        return f"it has {len(inputs.columns)} names of columns for samples of the shape {inputs.shape}"
    if len(set(inputs.columns)) != len(inputs.columns):
        return "a column stands twice"
    for name, kind in inputs.types.items():
        words = kind[1:] if isinstance(kind, list) and kind[:1] in (["ordered"], ["unordered"]) else None
        plain = words is not None and all(isinstance(word, str | int | float) for word in words)
        if not plain and not isinstance(kind, str):
            return f"the column {name!r:.60} has no known type"
    return ""


def _card(manifest: Manifest) -> str:
    wrong = [name for name, score in manifest.scores.items() if type(score) not in (int, float)]
    return f"the score {wrong[0]!r:.60} is no number" if wrong else ""
