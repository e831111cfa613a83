"""Experiment loggers by name: callbacks that write to a tracking tool.

All of them write the same: settings as hyperparameters, and for every round `mean/MEASURE`, `agent/NAME/MEASURE` and
the trust matrix as a picture.
"""

import hashlib
import logging
import math
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.registry import Registry
from consilience.runtime.callbacks import Callback, Ended, Finished, RunInfo, Started
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOGGERS = Registry("logger", "consilience.runtime.loggers", "consilience.loggers")
_LIGHT, _DARK = np.array([247.0, 251.0, 255.0]), np.array([8.0, 48.0, 107.0])


def logger(text: str) -> Callback:
    """A logger from its name and where it writes, such as tensorboard:logs."""
    name, colon, where = text.partition(":")
    if not colon or not where:
        raise ConsilienceError(
            f"--log {text}: write NAME:WHERE, such as tensorboard:logs. Loggers: {', '.join(LOGGERS.names())}."
        )
    made: Callback = LOGGERS.find(name)(where)
    return made


def lacking(package: str, extra: str) -> ConsilienceError:
    """The error for a logger whose tool is not installed."""
    return ConsilienceError(f"this logger needs {package}: pip install 'consilience[{extra}]'.")


def scalars(news: Finished) -> Iterator[tuple[str, float]]:
    """All finite measures by tag: means over agents first, then each agent's."""
    groups = {"mean": news.means} | {f"agent/{name}": measures for name, measures in news.agents.items()}
    for group, measures in groups.items():
        for key, value in measures.items():
            if key not in ("round", "agent") and math.isfinite(value):
                yield f"{group}/{key}", value


def trust_picture(trust: Array, side: int = 240) -> Array:
    """A trust matrix as a picture (height, width, 3) of bytes: white for 0, dark blue for the largest value."""
    share = np.asarray(trust, dtype=float) / max(float(np.max(trust)), 1e-12)
    cell = max(1, side // max(share.shape))
    colours = (_LIGHT + share[..., None] * (_DARK - _LIGHT)).round().astype(np.uint8)
    return np.repeat(np.repeat(colours, cell, axis=0), cell, axis=1)


def file_name(run: RunInfo) -> str:
    """The run's name as the name of a file.

    >>> file_name(RunInfo("fedprox(mu=0.1), seed 3"))
    'fedprox-mu-0.1-seed-3'
    """
    return re.sub(r"[^\w.+-]+", "-", run.name).strip("-") or "run"


@final
@LOGGERS.add("tensorboard")
class TensorBoard(Callback):
    """Writes event files for TensorBoard. A resumed run goes on in its own.

    Args:
        folder: Where to write; in it is a folder for each run.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._writers: dict[str, Any] = {}
        self._last: dict[str, dict[str, float]] = {}

    def start(self, run: RunInfo, news: Started) -> None:
        """Opens the run's file."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise lacking("tensorboard", "tensorboard") from error
        self._writers[run.name] = SummaryWriter(str(self._folder / file_name(run)))

    def round(self, run: RunInfo, news: Finished) -> None:
        """Scalars of the round and the trust matrix."""
        writer = self._writers[run.name]
        for tag, value in scalars(news):
            writer.add_scalar(tag, value, news.number)
        if news.trust is not None:
            writer.add_image("trust", trust_picture(news.trust), news.number, dataformats="HWC")
        writer.flush()
        self._last[run.name] = {tag: value for tag, value in scalars(news) if tag.startswith("mean/")}

    def end(self, run: RunInfo, news: Ended) -> None:
        """Settings beside the last means, and the end of the file."""
        writer = self._writers.pop(run.name)
        if news.finished and run.name in self._last:
            plain = (int, float, str)
            options = {key: value if isinstance(value, plain) else str(value) for key, value in run.settings.items()}
            results = {f"last/{tag}": value for tag, value in self._last[run.name].items()}
            writer.add_hparams(options, results, run_name=".")
        writer.close()


EXPERIMENT = "consilience"
_FOLDER = "consilience.folder"
"""The tag by which a resumed run is found."""
_LONGEST = 6000
"""Characters that MLflow accepts as the value of a parameter."""


@final
@LOGGERS.add("mlflow")
class MLflow(Callback):
    """Writes runs for MLflow, whose own telemetry is switched off.

    Show them with `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db`.

    Args:
        where: A folder, in which `mlflow.db` and artefacts are kept, or the address of a tracking server.
    """

    def __init__(self, where: str | Path) -> None:
        self._where = str(where)
        self._client: MlflowClient | None = None
        self._experiment = ""
        self._runs: dict[str, str] = {}

    def start(self, run: RunInfo, news: Started) -> None:
        """Makes a run, or continues that of the same folder."""
        client = self._connected()
        folder = str(run.folder.resolve()) if run.folder else ""
        earlier = self._run_of(folder) if folder and news.done else None
        if earlier:
            self._runs[run.name] = earlier
            client.update_run(earlier, status="RUNNING")
            return
        tags = {_FOLDER: folder, "method": news.summary.title, "dataset": news.summary.dataset}
        made = client.create_run(self._experiment, tags=tags, run_name=run.name).info.run_id
        self._runs[run.name] = made
        for key, value in run.settings.items():
            client.log_param(made, key, str(value)[:_LONGEST])

    def round(self, run: RunInfo, news: Finished) -> None:
        """Metrics of the round in one batch, and the trust matrix as a picture."""
        from mlflow.entities import Metric

        client, made, now = self._connected(), self._runs[run.name], int(time.time() * 1000)
        metrics = [Metric(tag, value, now, news.number) for tag, value in scalars(news)]
        for first in range(0, len(metrics), 1000):
            client.log_batch(made, metrics=metrics[first : first + 1000])
        if news.trust is not None:
            client.log_image(made, trust_picture(news.trust), artifact_file=f"trust/round-{news.number:04d}.png")

    def end(self, run: RunInfo, news: Ended) -> None:
        """Records whether the run has finished."""
        self._connected().set_terminated(self._runs.pop(run.name), "FINISHED" if news.finished else "KILLED")

    def _connected(self) -> "MlflowClient":
        if self._client is None:
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
            try:
                from mlflow import MlflowClient
            except ImportError as error:
                raise lacking("mlflow", "mlflow") from error
            for name in ("mlflow", "alembic"):
                logging.getLogger(name).setLevel(logging.WARNING)
            address, options = self._where, dict[str, Any]()
            if "://" not in address:
                folder = Path(address).resolve()
                folder.mkdir(parents=True, exist_ok=True)
                address, options = f"sqlite:///{folder}/mlflow.db", {"artifact_location": str(folder / "artefacts")}
            self._client = MlflowClient(tracking_uri=address)
            known = self._client.get_experiment_by_name(EXPERIMENT)
            made = self._client.create_experiment
            self._experiment = known.experiment_id if known else made(EXPERIMENT, **options)
        return self._client

    def _run_of(self, folder: str) -> str | None:
        quoted = folder.replace("'", "\\'")
        runs = self._connected().search_runs([self._experiment], f"tags.`{_FOLDER}` = '{quoted}'", max_results=1)
        return runs[0].info.run_id if runs else None


@final
@LOGGERS.add("wandb")
class WandB(Callback):
    """Writes offline runs for Weights & Biases, which `wandb sync` uploads.

    Args:
        folder: Where to write; the runs are in its folder wandb.
        project: The name of their project.
    """

    def __init__(self, folder: str | Path, project: str = "consilience") -> None:
        self._folder, self._project = Path(folder), project
        self._runs: dict[str, Any] = {}

    def start(self, run: RunInfo, news: Started) -> None:
        """Makes an offline run; one that is resumed has the same identity, so that `wandb sync` joins both parts."""
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb
        except ImportError as error:
            raise lacking("wandb", "wandb") from error
        self._folder.mkdir(parents=True, exist_ok=True)
        identity = hashlib.sha256(str(run.folder.resolve()).encode()).hexdigest()[:12] if run.folder else None
        self._runs[run.name] = wandb.init(
            project=self._project,
            name=run.name,
            id=identity,
            dir=str(self._folder),
            config=dict(run.settings),
            mode="offline",
            reinit="create_new",
            resume="allow" if identity else None,
            settings=wandb.Settings(silent=True, console="off", disable_git=True, save_code=False),
        )

    def round(self, run: RunInfo, news: Finished) -> None:
        """Scalars of the round and the trust matrix."""
        import wandb

        values: dict[str, Any] = dict(scalars(news))
        if news.trust is not None:
            values["trust"] = wandb.Image(trust_picture(news.trust), caption=f"trust in round {news.number}")
        self._runs[run.name].log(values, step=news.number)

    def end(self, run: RunInfo, news: Ended) -> None:
        """Closes the run."""
        self._runs.pop(run.name).finish(exit_code=0 if news.finished else 1)
