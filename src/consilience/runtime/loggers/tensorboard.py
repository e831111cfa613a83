"""TensorBoard: `tensorboard --logdir logs` shows curves, trust matrices and hyperparameters."""

from pathlib import Path
from typing import Any, final

from consilience.runtime.callbacks import Callback, Ended, Finished, RunInfo, Started
from consilience.runtime.loggers import LOGGERS, file_name, lacking, scalars, trust_picture


@final
@LOGGERS.add("tensorboard")
class TensorBoard(Callback):
    """Writes event files into `folder`, a folder in it for each run. A resumed run goes on in its own."""

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
