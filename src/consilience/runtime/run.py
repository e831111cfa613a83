"""A finished run and its folder, and where a run may write, one process at a time."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consilience.agents.calibration import Calibration
from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.files import LOCK, lock_folder, read_small, write_atomically
from consilience.core.sparse import SparseTrust
from consilience.data.arrays import MOST_PACKED, read_arrays
from consilience.data.parquet import read_parquet
from consilience.runtime import checkpoint
from consilience.runtime.checkpoint import checked_files, write_sums
from consilience.runtime.held_out import Held, Measured, calibration_of, measured, models_of
from consilience.runtime.summary import Summary, summary_from
from consilience.tasks import task_named
from consilience.tasks.protocol import Array

HELD, SUMMARY, MOST_SUMMARY = "held_out.npz", "summary.json", 100_000_000

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """A finished run, in memory. `save` writes its folder and `load_run` reads it."""

    metrics: "pd.DataFrame"
    """One row per round and agent."""
    trust: Array
    """(rounds of collaboration, agents of the process, roster); empty where only `sparse` has it."""
    trust_rounds: Array
    summary: Summary
    references: dict[str, "Run"] = field(default_factory=dict)
    """The same agents under other methods, such as alone and naive."""
    by_class: dict[str, Array] = field(default_factory=dict)
    """Where the trust rule weighs peers by class: trust in the last round (agents of the process, roster, classes),
    samples (classes,) that seem to have each class, and the share (classes,) of them that are unsure."""
    draws: dict[str, Array] = field(default_factory=dict)
    """Scores of the last round on resamples of the test samples, by column of the metrics (agents of the process,
    draws). Runs on the same test samples have the same resamples, so that their difference is paired. Columns whose
    names begin with `history.BEHIND` (agents of the process, 1) say how many samples are behind a score, if few."""
    sparse: SparseTrust | None = None
    """Peers and trust in sparse exchange."""
    held: Held = field(default_factory=dict)
    """What models are calibrated and combined by; empty if the run was told to keep nothing."""
    copies: tuple[Agent, ...] = ()
    """In the process of the run: the copies of the agents that trained alone."""

    def __repr__(self) -> str:
        shown = [*self.names[:6], *(["..."] if len(self.names) > 6 else [])]
        beside = f"; beside it {', '.join(self.references)}" if self.references else ""
        return (
            f"Run({self.summary.method}, {self.metrics['round'].nunique()} rounds, {len(self.names)} agents: "
            f"{', '.join(shown)}{beside})"
        )

    @property
    def weighed(self) -> bool:
        """Whether there was trust in any round."""
        return len(self.trust_rounds) > 0

    @property
    def names(self) -> list[str]:
        """Agents in the order of the trust matrices."""
        return self.summary.names

    def last_round(self) -> "pd.DataFrame":
        """The metrics after the last round, with columns for wrong labels and attackers."""
        table = self.metrics[self.metrics["round"] == self.metrics["round"].max()]
        low = {agent.name: agent.low_quality for agent in self.summary.agents}
        attackers = {agent.name: agent.attacker for agent in self.summary.agents}
        result: pd.DataFrame = table.assign(low_quality=table["agent"].map(low), attacker=table["agent"].map(attackers))
        return result

    @cached_property
    def calibrations(self) -> dict[str, Calibration]:
        """The calibration of each agent of which the run keeps something."""
        alone, task = self._alone, task_named(self.summary.task)
        return {name: calibration_of(task, held, alone.get(name)) for name, held in self.held.items()}

    @cached_property
    def home(self) -> "Run | None":
        """The models to use, measured on the same samples as the models trained alone, its reference "alone".

        Columns of agents' own test data are those of the home model, columns of the target domain those of the
        calibrated model. None where the run keeps nothing, or nobody trained alone.
        """
        task, alone, rows = task_named(self.summary.task), self._alone, dict[str, tuple[Measured, Measured]]()
        for name, calibration in self.calibrations.items():
            held, other = self.held[name], alone.get(name)
            places = {place: models_of(calibration, held, other, place) for place in ("own", "target")}
            known = {place: models for place, models in places.items() if "alone" in models}
            if known:
                pairs = [{p: (known[p][model], held[f"{p}_y"]) for p in known} for model in ("alone", "home")]
                rows[name] = measured(name, task, pairs[0]), measured(name, task, pairs[1])
        if not rows:
            return None
        first, best = (
            _measured_run(self.summary, {name: row[index] for name, row in rows.items()}) for index in (0, 1)
        )
        return replace(best, references={"alone": first})

    def home_scores(self) -> dict[str, dict[str, float]]:
        """Scores of the home model of each agent at home, by column; those of `home`, without resamples."""
        task, alone, scores = task_named(self.summary.task), self._alone, dict[str, dict[str, float]]()
        for name, calibration in self.calibrations.items():
            held = self.held[name]
            models = models_of(calibration, held, alone.get(name), "own")
            if "alone" in models:
                values, _ = measured(name, task, {"own": (models["home"], held["own_y"])}, draws=False)
                scores[name] = {column: value for column, value in values.items() if column.endswith("_own")}
        return scores

    @property
    def _alone(self) -> Held:
        """What was kept of the agents that trained alone."""
        return self.references["alone"].held if "alone" in self.references else {}

    def save(self, folder: Path) -> None:
        """Writes metrics.parquet, trust.npz, draws.npz, held_out.npz, SHA256SUMS and, last, summary.json.

        A folder with a summary is a finished run.

        Args:
            folder: Where to write; it may exist.
        """
        table, matrices, resamples = BytesIO(), BytesIO(), BytesIO()
        self.metrics.to_parquet(table, index=False)
        more: dict[str, Any] = {f"class_{key}": value for key, value in self.by_class.items()}
        trust = self.trust
        if self.sparse is not None:
            trust, more["peers"] = self.sparse.weights, self.sparse.peers
        np.savez_compressed(matrices, trust=trust, rounds=self.trust_rounds, agents=np.array(self.names), **more)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SUMMARY).unlink(missing_ok=True)
        files = {"metrics.parquet": table.getvalue(), "trust.npz": matrices.getvalue()}
        if self.draws:
            drawn: dict[str, Any] = dict(self.draws)
            np.savez_compressed(resamples, **drawn)
            files["draws.npz"] = resamples.getvalue()
        if self.held:
            kept: dict[str, Any] = checkpoint.flat(self.held)
            np.savez_compressed(packed := BytesIO(), **kept)
            files[HELD] = packed.getvalue()
        for name, data in files.items():
            write_atomically(folder / name, data)
        for name, reference in self.references.items():
            reference.save(folder / name)
        files[SUMMARY] = self.summary.to_json().encode()
        if (folder / "config.toml").is_file():
            files["config.toml"] = (folder / "config.toml").read_bytes()
        write_sums(folder, files)
        write_atomically(folder / SUMMARY, files[SUMMARY])


def is_finished(folder: Path) -> bool:
    """Whether `folder` holds a finished run."""
    return (folder / SUMMARY).is_file()


def load_run(folder: Path | str) -> Run:
    """Reads a finished run's folder.

    Args:
        folder: The folder of the run, which holds summary.json.
    """
    return _load(Path(folder), references=True)


def _load(folder: Path, references: bool) -> Run:
    """The run in a folder. Runs that it is compared with are in folders of it, and have none themselves."""
    if not is_finished(folder):
        raise ConsilienceError(
            f"{folder} holds no finished run (there is no summary.json). "
            "Give the folder of a run, or finish the run first."
        )
    try:
        checked_files(folder)
        summary = summary_from(read_small(folder / SUMMARY, MOST_SUMMARY).decode())
        matrices = read_arrays(folder / "trust.npz")
        trust, rounds, by_class = matrices["trust"], matrices["rounds"], checkpoint.with_prefix(matrices, "class_")
        sparse = SparseTrust(matrices["peers"], trust) if "peers" in matrices else None
        draws = read_arrays(folder / "draws.npz") if (folder / "draws.npz").is_file() else {}
        held = checkpoint.by_agent(read_arrays(folder / HELD)) if (folder / HELD).is_file() else {}
        _check_held(held)
        table = read_parquet(folder / "metrics.parquet", MOST_PACKED)
        _check_together(summary, table, trust, rounds, sparse)
    except Exception as error:  # damaged files make their readers fail in many ways
        why = str(error).strip() or type(error).__name__
        raise ConsilienceError(f"the run in {folder} cannot be read: {why[:500]}. Run it again.") from error
    below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()) if references else []
    inner = {path.name: _load(path, references=False) for path in below if is_finished(path)}
    trust = trust if sparse is None else sparse.dense()
    return Run(table, trust, rounds, summary, inner, by_class, draws, sparse, held)


def _check_held(held: Held) -> None:
    """Refuses predictions that do not fit their labels."""
    for name, arrays in held.items():
        known = [key for key in ("kept", "own", "target") if key in arrays]
        fits = "counts" in arrays and all(f"{key}_y" in arrays for key in known)
        fits = fits and all(
            arrays[key].ndim == 2 and arrays[key].dtype.kind == "f" and len(arrays[key]) == len(arrays[f"{key}_y"])
            for key in known
        )
        if not fits:
            raise ConsilienceError(f"{HELD} does not hold predictions and labels of agent {name!r:.60}")


def _measured_run(summary: Summary, by_agent: Mapping[str, Measured]) -> Run:
    """A run of one round with these scores, and their values on resamples."""
    import pandas as pd

    table = pd.DataFrame([{"round": summary.rounds, "agent": name} | scores for name, (scores, _) in by_agent.items()])
    columns = dict.fromkeys(column for _, draws in by_agent.values() for column in draws)
    drawn = {
        column: _stacked([draws.get(column) for _, draws in by_agent.values()]).astype(np.float32) for column in columns
    }
    return Run(table, np.zeros((0, 0, 0)), np.zeros(0, dtype=np.int64), summary, draws=drawn)


def _stacked(rows: list[Array | None]) -> Array:
    """(agents, draws), NaN for agents without any."""
    missing = np.full_like(next(row for row in rows if row is not None), np.nan)
    return np.stack([missing if row is None else row for row in rows])


def _check_together(
    summary: Summary, table: "pd.DataFrame", trust: Array, rounds: Array, sparse: SparseTrust | None
) -> None:
    if not {"round", "agent"} <= set(table.columns) or not len(table):
        raise ConsilienceError("metrics.parquet has no rows of rounds and agents")
    names = summary.names or list(dict.fromkeys(table["agent"]))
    numbers = [str(column) for column in table if column != "agent" and table[column].dtype.kind not in "iufb"]
    if numbers or table["round"].dtype.kind not in "iu":
        raise ConsilienceError(f"metrics.parquet: the column {(numbers or ['round'])[0]} does not hold numbers")
    if not set(table["agent"]) <= set(names) or table.duplicated(["round", "agent"]).any():
        raise ConsilienceError("metrics.parquet does not have one row for each round and agent of summary.json")
    if trust.dtype.kind not in "fiu" or trust.ndim != 3 or rounds.dtype.kind not in "iu":
        raise ConsilienceError("trust.npz does not hold matrices of numbers")
    if rounds.shape != trust.shape[:1] or (len(trust) and trust.shape[1] > len(names)):
        raise ConsilienceError("trust.npz does not have one matrix for each of its rounds")
    if sparse is None:
        fits = not len(trust) or trust.shape[2] == len(names)
    else:
        peers = sparse.peers
        fits = peers.shape == trust.shape and peers.dtype.kind in "iu"
        fits = fits and (not peers.size or (peers.min() >= 0 and peers.max() < len(names)))
    if not fits:
        raise ConsilienceError("trust.npz has other agents than summary.json")


def claim_folder(path: Path, resume: bool, overwrite: bool = False) -> Path:
    """Makes and locks a folder to write a run into, until this process ends.

    A folder that holds something is an error, unless resuming or asked to overwrite.
    """
    if resume and not path.is_dir():
        raise ConsilienceError(f"there is no run in {path} to resume. Is the name right?")
    if path.exists() and not path.is_dir():
        raise ConsilienceError(f"{path} is a file, not a folder. Choose another folder.")
    if path.is_dir() and _holds_something(path) and not resume:
        if not overwrite:
            raise ConsilienceError(
                f"{path} already holds something and is not overwritten. "
                "Resume it, overwrite it, or choose another folder."
            )
        if not (path / "config.toml").is_file():
            raise ConsilienceError(f"{path} does not look like a run (no config.toml), so it is not replaced.")
        lock_folder(path)
        for old in path.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            elif old.name != LOCK:
                old.unlink()
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConsilienceError(
            f"cannot write to {path}: {error.strerror}. Choose a folder you may write to."
        ) from error
    lock_folder(path)
    return path


def remove_unbegun(path: Path) -> None:
    """Removes a claimed folder in which no run has begun: it holds its settings at most, and its name is free again."""
    if {file.name for file in path.rglob("*") if not file.is_dir()} <= {LOCK, "config.toml"}:
        shutil.rmtree(path)


def _holds_something(path: Path) -> bool:
    return any(entry.name != LOCK for entry in path.iterdir())


def next_folder(parent: Path, name: str) -> Path:
    """parent/name-1, parent/name-2, ...: the first that does not exist."""
    return parent / f"{name}-{1 + _last_number(parent, name)}"


def last_folder(parent: Path, name: str) -> Path:
    """The newest of parent/name-1, parent/name-2, ..."""
    number = _last_number(parent, name)
    if not number:
        raise ConsilienceError(f"there is no run {parent / name}-... to resume. Name its folder.")
    return parent / f"{name}-{number}"


def _last_number(parent: Path, name: str) -> int:
    if not os.access(parent, os.R_OK):
        return 0
    tails = [path.name.removeprefix(f"{name}-") for path in parent.glob(f"{name}-*")]
    return max((int(tail) for tail in tails if tail.isdecimal()), default=0)
