"""The folder of an exported model: written whole, checked against the agent, read without any of its data."""

import glob
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, final

import numpy as np

from consilience.agents.calibrated import predict_at, sets_of
from consilience.agents.calibration import Calibration, calibration_from
from consilience.agents.protocol import Agent, implements
from consilience.base.errors import ConsilienceError, first_line
from consilience.base.files import write_atomically
from consilience.base.rows import Rows, count, take
from consilience.data.preprocess import TablePreprocessing
from consilience.export import estimators, networks
from consilience.export.card import Facts, card
from consilience.export.inputs import (
    Prepare,
    as_samples,
    described,
    function_of,
    raw_inputs,
    read_prepare,
    write_prepare,
)
from consilience.export.manifest import FILE, Architecture, Manifest, Part, check_manifest, checked_bytes, read_manifest
from consilience.runtime.privacy_budget import mechanism_of
from consilience.runtime.summary import versions
from consilience.tasks import TASKS, task_named
from consilience.tasks.protocol import Array, checked_predictions, require_classes

CARD = "README.md"
ALONE = "alone"
"""The folder, in that of a model, of the model that trained alone."""
CLOSE = 1e-5
"""The largest difference between predictions of the exported model and of the agent."""
ASKED = 64
"""Rows on which the exported model is compared with the agent."""


@final
class ExportedModel:
    """A model that was taken home. It predicts by itself: no training data, no key, no peers."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.manifest = manifest
        steps = [step for step in manifest.parts if step.role == "prepare"]
        rest = [piece for piece in manifest.parts if piece.role != "prepare"]
        files = {name: checked_bytes(folder, manifest, name) for name in manifest.files}
        self._prepare = [read_prepare(step, files[step.file]) for step in steps]
        if any(piece.role == "network" for piece in rest):
            by_form = {piece.form: files[piece.file] for piece in rest}
            self._predict = networks.read(by_form, manifest.architecture, manifest.task)
        else:
            self._predict = estimators.read(rest, files, manifest.task, manifest.outputs)
        self._alone = _model_alone(folder, manifest)
        self.calibration: Calibration | None = None
        """Of its models, if it is known."""
        if manifest.calibration:
            self.calibration = calibration_from(manifest.calibration, task_named(manifest.task), manifest.outputs)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes or labels, in the order of the columns; empty for regression."""
        return self.manifest.classes

    def predict(self, x: Any, at: str = "") -> Array:
        """Class probabilities (samples, classes), or for regression values (samples, outputs).

        Args:
            x: Rows such as the agent had: an array, a DataFrame with the same columns, a list of texts.
            at: home | target | alone | together; by default what it was exported for.
        """
        alone = None if self._alone is None else self._alone.predict
        who = f"the model of {self.manifest.agent!r}"
        return predict_at(who, at or self.manifest.at, x, self._together, alone, self.calibration)

    def predict_sets(self, x: Any, coverage: float = 0.9, at: str = "home") -> Array:
        """Which classes may be true (samples, classes); for values the ends of an interval (samples, outputs, 2).

        Sets hold the truth with at least this probability for samples like the agent's own (split conformal
        prediction).

        Args:
            x: Rows as `predict` takes them.
            coverage: The probability.
            at: home | target.
        """
        return sets_of(self.calibration, self.predict(x, at), at, coverage)

    def _together(self, x: Any) -> Array:
        samples = as_samples(x, self.manifest.inputs)
        number = count(samples)
        try:
            for prepare in self._prepare:
                samples = prepare(samples)
            f = np.asarray(self._predict(samples), dtype=np.float32)
        except ConsilienceError:
            raise
        except Exception as error:  # whatever libraries do with samples or with a model that they cannot use
            raise ConsilienceError(
                f"the model of {self.manifest.agent!r} cannot predict these samples ({type(error).__name__}: "
                f"{first_line(error)}). Are they such as its "
                "README.md says?"
            ) from error
        task = task_named(self.manifest.task)
        return checked_predictions(self.manifest.agent, f, number, self.manifest.outputs, task)

    def predict_labels(self, x: Any) -> list[str]:
        """The name of the most probable class of every sample."""
        task = task_named(self.manifest.task)
        require_classes(task, f"{self.manifest.task} has no most probable class. Use predict.")
        return [self.classes[number] for number in self.predict(x).argmax(axis=1)]


def _model_alone(folder: Path, manifest: Manifest) -> "ExportedModel | None":
    """The model that trained alone, if it is in the folder, as it was exported."""
    if not manifest.alone:
        return None
    inner, path = folder / ALONE, folder / ALONE / FILE
    if not path.is_file() or sha256(path.read_bytes()).hexdigest() != manifest.alone:
        raise ConsilienceError(f"{path} is missing or was changed after the export. Export the model again.")
    alone = read_manifest(inner)
    check_manifest(alone, str(path))
    if alone.alone or (alone.task, alone.outputs) != (manifest.task, manifest.outputs):
        raise ConsilienceError(f"{path} is not that of a model beside the one in {folder}. Export the model again.")
    return ExportedModel(inner, alone)


def load_model(folder: str | Path) -> ExportedModel:
    """The model in a folder that `export` wrote. A changed file, or one not known to be harmless, is refused.

    Args:
        folder: The folder.
    """
    path = Path(folder)
    manifest = read_manifest(path)
    check_manifest(manifest, str(path / FILE))
    try:
        return ExportedModel(path, manifest)
    except ConsilienceError:
        raise
    except Exception as error:  # models that fit no sentence fail in many ways
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise ConsilienceError(f"the model in {path} cannot be read ({reason}). Export it again.") from error


def export_agent(
    agent: Agent,
    folder: Path,
    sample: Rows,
    facts: Facts | None = None,
    prepare: Sequence[Prepare] = (),
    *,
    onnx: bool = True,
    overwrite: bool = False,
    calibration: Calibration | None = None,
    alone: Agent | None = None,
    at: str = "together",
) -> Path:
    """Writes the agent's trained model into `folder`, and checks that it predicts as the agent does.

    With a `calibration` and the copy that trained `alone` the folder predicts at home as well; `at` is what it predicts
    for by default.

    `sample` are some samples as users of the folder will have them, such as shared data; `prepare` are the steps that
    make of them what the agent takes. Without `onnx`, a built-in network is stored by its weights alone.
    """
    facts, given = facts or Facts(), prepare
    _check_free(folder, overwrite)
    raw = rows = take(sample, np.arange(min(ASKED, count(sample))))
    before = [write_prepare(number, action) for number, action in enumerate(prepare)]
    for step, data in before:
        rows = read_prepare(step, data)(rows)
    parts, files, architecture = _model_files(agent, rows, onnx)
    wanted, about, transform = agent.predict(rows), facts.about, getattr(agent, "transform", None)
    if transform is not None and function_of(transform):
        raw, before, about = transform(rows), [], _to_ship(function_of(transform), bool(before))
    elif transform is not None:
        before.append(write_prepare(len(before), transform))
        prepare = [*prepare, transform]
    if before and isinstance(prepare[0], TablePreprocessing):
        raw, inputs = raw_inputs(raw, prepare[0], about)
    else:
        inputs = replace(described(raw, facts.columns, about), largest=facts.largest)
    second = _files_alone(alone, sample, replace(facts, scores={}, advice=()), given) if alone is not None else {}
    manifest = Manifest(
        agent=agent.name,
        kind=agent.kind,
        task=agent.task.name,
        outputs=agent.outputs,
        classes=facts.classes or _classes(agent),
        parts=(*(step for step, _ in before), *parts),
        architecture=architecture,
        inputs=inputs,
        training=_own_data(agent) | facts.training,
        scores=facts.scores,
        versions=versions(),
        files=_checksums(files := files | {step.file: data for step, data in before}),
        at=at,
        calibration={} if calibration is None else calibration.table(),
        alone=sha256(second[f"{ALONE}/{FILE}"]).hexdigest() if second else "",
        advice=facts.advice,
    )
    files |= second | {CARD: card(manifest).encode(), FILE: manifest.to_json().encode()}
    _write(folder, files, lambda new: _check_equal(agent, new, raw, wanted))
    return folder


def _files_alone(alone: Agent, sample: Rows, facts: Facts, prepare: Sequence[Prepare]) -> dict[str, bytes]:
    """The files of the model that trained alone, by their names in the folder of the other one."""
    with TemporaryDirectory(prefix="consilience-") as scratch:
        inner = export_agent(alone, Path(scratch) / ALONE, sample, facts, prepare, onnx=False)
        return {f"{ALONE}/{path.name}": path.read_bytes() for path in sorted(inner.iterdir())}


def _to_ship(function: str, scaled: bool) -> str:
    """The sentence on a model whose inputs a Python function makes."""
    first = "Scale raw rows as the site did, then ship" if scaled else "Ship"
    return (
        f"The samples are what the function {function} makes of raw rows. A Python function cannot be exported safely: "
        f"{first} that file with this folder, and call the function before predicting."
    )


def _classes(agent: Agent) -> tuple[str, ...]:
    named = tuple(getattr(agent, "class_names", ()))
    return named or (tuple(str(number) for number in range(agent.outputs)) if agent.task.named_outputs else ())


def _own_data(agent: Agent) -> dict[str, Any]:
    """The number of private samples in each class, and their fingerprint; nothing for agents that promise privacy."""
    if mechanism_of(agent) is not None:
        return {}
    counts = agent.class_counts + [0] * (agent.outputs - len(agent.class_counts)) if agent.class_counts else []
    prints = {"private_data": agent.fingerprint()} if hasattr(agent, "fingerprint") else {}
    return {"samples": agent.samples, "class_counts": counts} | prints


def _model_files(agent: Agent, sample: Rows, onnx: bool) -> tuple[list[Part], dict[str, bytes], Architecture]:
    """The parts of an agent's model, by what the agent has."""
    if agent.task.name not in TASKS.names() or not type(agent.task).__module__.startswith("consilience."):
        raise ConsilienceError(
            f"agent {agent.name!r}: the task {agent.task.name} comes from a plugin, which an exported model cannot "
            "hold. Built-in tasks can be exported."
        )
    if implements(agent, networks.HasNetwork):
        architecture = Architecture(*(getattr(agent, "architecture", None) or ()))
        network = cast(networks.HasNetwork, agent)
        return (*networks.write(network, architecture, sample, onnx), architecture)
    if implements(agent, estimators.HasEstimators):
        return (*estimators.write(cast(estimators.HasEstimators, agent)), Architecture())
    raise ConsilienceError(
        f"agent {agent.name!r} ({agent.kind}) is of a kind whose model cannot be exported: it has neither a torch "
        "`model` nor fitted `answers`. Keep what its `state` returns, and ship the Python file that defines it."
    )


def _check_free(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConsilienceError(f"{folder} is a file, not a folder. Choose another one.")
    if folder.is_dir() and any(folder.iterdir()) and not (overwrite and (folder / FILE).is_file()):
        raise ConsilienceError(f"{folder} already holds something and is not overwritten. Choose another folder.")


def _write(folder: Path, files: dict[str, bytes], check: Callable[[Path], None] = lambda _: None) -> None:
    """All files into a new folder beside it, then into place: never a mixture of two models.

    Where the `check` of the new folder raises an error, what was there stays. A kill between the two renames leaves the
    old model under a hidden name, until the next export.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for name, data in files.items():
        (new / name).parent.mkdir(exist_ok=True)
        write_atomically(new / name, data)
    try:
        check(new)
    except BaseException:
        shutil.rmtree(new)
        raise
    if folder.is_dir():
        folder.rename(folder.with_name(f".{folder.name}.{os.getpid()}.old"))
    new.rename(folder)
    for old in folder.parent.glob(f".{glob.escape(folder.name)}.*.old"):
        shutil.rmtree(old, ignore_errors=True)


def _check_equal(agent: Agent, folder: Path, sample: Rows, wanted: Array) -> None:
    """Reads the folder as any user would, and refuses it if its predictions differ from the agent's."""
    f = load_model(folder).predict(sample, at="together")
    distance = float(np.abs(f - wanted).max(initial=0) / max(1.0, float(np.abs(wanted).max(initial=0))))
    if not distance <= CLOSE:
        raise ConsilienceError(
            f"agent {agent.name!r}: the exported model differs from the trained one by {distance:.2g}, so it was "
            "not kept. Does the model draw at random when it predicts?"
        )


def copy_model(source: Path, to: Path, at: str = "") -> Path:
    """Copies an exported model, which is read and checked on the way. A built-in network gets its ONNX form.

    `at` is what the copy predicts for by default, if not what the original does.
    """
    manifest = load_model(source).manifest
    manifest = replace(manifest, at=at or manifest.at)
    _check_free(to, overwrite=False)
    files = {name: checked_bytes(source, manifest, name) for name in manifest.files}
    if manifest.architecture.model and all(piece.form != "onnx" for piece in manifest.parts):
        network, data = networks.onnx_of(files, manifest.agent, manifest.architecture, manifest.task)
        files[network.file] = data
        manifest = replace(manifest, parts=(*manifest.parts, network), files=_checksums(files))
    inner = sorted((source / ALONE).iterdir()) if manifest.alone else []
    second = {f"{ALONE}/{path.name}": path.read_bytes() for path in inner}
    _write(to, files | second | {CARD: card(manifest).encode(), FILE: manifest.to_json().encode()})
    return to


def _checksums(files: dict[str, bytes]) -> dict[str, str]:
    return {name: sha256(data).hexdigest() for name, data in sorted(files.items())}
