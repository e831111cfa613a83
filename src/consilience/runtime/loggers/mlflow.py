"""MLflow: runs with parameters, metrics and artefacts in a local database, or on a tracking server."""

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from consilience.runtime.callbacks import Callback, Ended, Finished, RunInfo, Started
from consilience.runtime.loggers import LOGGERS, lacking, scalars, trust_picture

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "consilience"
_FOLDER = "consilience.folder"
"""The tag by which a resumed run is found."""
_LONGEST = 6000
"""Characters that MLflow accepts as the value of a parameter."""


@final
@LOGGERS.add("mlflow")
class MLflow(Callback):
    """Writes into `where`: a folder, in which `mlflow.db` and artefacts are kept, or the address of a tracking server.

    Show it with `mlflow ui --backend-store-uri sqlite:///FOLDER/mlflow.db`. MLflow's own telemetry is switched off.
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
