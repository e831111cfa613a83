"""A small file in the run folder that tells the live page how far the current round is."""

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from consilience.runtime.callbacks import Callback, Ended, Finished, RunInfo, Started, Trained

NOW = "now.json"
PAUSE = 0.2
"""Least number of seconds between two writings of a file."""


@dataclass
class _RunUnderWay:
    agents_by_worker: tuple[tuple[str, ...], ...]
    round: int
    trained: set[str] = field(default_factory=set)
    written: float = 0.0


@final
class ProgressFile(Callback):
    """Keeps now.json in the folder of every run: the round, who has trained in it, and who trains now.

    Every worker trains its agents in the order of the roster; small models that train as one batch finish together.
    """

    def __init__(self) -> None:
        self._under: dict[Path, _RunUnderWay] = {}

    def start(self, run: RunInfo, news: Started) -> None:
        """A run begins or resumes."""
        if run.folder is not None:
            self._under[run.folder] = _RunUnderWay(news.agents_by_worker, news.done + 1)
            self._write(run.folder)

    def trained(self, run: RunInfo, news: Trained) -> None:
        """An agent has trained."""
        if run.folder in self._under:
            self._under[run.folder].trained.add(news.agent)
            self._write(run.folder)

    def round(self, run: RunInfo, news: Finished) -> None:
        """The next round begins."""
        if run.folder in self._under:
            under = self._under[run.folder]
            under.round, under.trained = news.number + 1, set()
            self._write(run.folder)

    def end(self, run: RunInfo, news: Ended) -> None:
        """Nobody trains any more."""
        if run.folder is not None and self._under.pop(run.folder, None) is not None:
            (run.folder / NOW).unlink(missing_ok=True)

    def _write(self, folder: Path) -> None:
        under = self._under[folder]
        if time.monotonic() - under.written < PAUSE:
            return
        under.written = time.monotonic()
        left = [[name for name in names if name not in under.trained] for names in under.agents_by_worker]
        content = {
            "round": under.round,
            "agents": sum(map(len, under.agents_by_worker)),
            "trained": len(under.trained),
            "training": [names[0] for names in left if names],
        }
        write_quickly(folder / NOW, content)


def write_quickly(path: Path, content: dict[str, Any]) -> None:
    """Writes a small file whole or not at all, without waiting for the disk; one that cannot be written is left out.

    The temporary file is a new one, never what a link there points to.
    """
    temporary = path.with_name(f".{path.name}.part")
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
        with temporary.open("x") as file:
            json.dump(content, file)
        temporary.replace(path)


def read_quickly(path: Path) -> dict[str, Any]:
    """What `write_quickly` wrote; empty if there is no such file."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
