"""Checks a model.json for consistency: whoever edits one can correct its checksum as well."""

import re
from math import prod
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.export.manifest import FILE, Manifest
from consilience.tasks import TASKS, task_named

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
