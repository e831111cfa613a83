"""One method with one seed, to be run into a folder."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from consilience.base.options import flat, to_table
from consilience.runtime.callbacks import RunInfo
from consilience.settings.settings import Settings


@dataclass(frozen=True)
class Job:
    """One method with one seed, to be run into `folder`."""

    settings: Settings
    folder: Path
    name: str = ""
    """How the method was called when the job was made; by default its label."""
    workers: int = 1
    """Processes that its agents are spread over."""
    label: str = ""
    """How the run is called while it is under way; by default as the method."""

    @property
    def method(self) -> str:
        """How the method is called."""
        return self.name or self.settings.method.label

    @cached_property
    def about(self) -> RunInfo:
        """The run, as callbacks are told of it."""
        return RunInfo(self.label or self.method, self.folder, flat(to_table(self.settings)))
