"""Weights & Biases, offline: nothing leaves this machine until you say `wandb sync`."""

import hashlib
import os
from pathlib import Path
from typing import Any, final

from consilience.runtime.callbacks import Callback, Ended, Finished, RunInfo, Started
from consilience.runtime.loggers import LOGGERS, lacking, scalars, trust_picture


@final
@LOGGERS.add("wandb")
class WandB(Callback):
    """Writes offline runs into `folder`/wandb, of the project `project`."""

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
