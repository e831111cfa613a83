"""What an exported folder says of itself: the file model.json, read strictly."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consilience.agents.calibrated import MODELS
from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, from_table, option, to_table

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
