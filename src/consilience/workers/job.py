"""One run to be carried out: its settings and its folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from consilience.runtime.events import Event
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

    @property
    def method(self) -> str:
        """How the method is called."""
        return self.name or self.settings.method.label


OnEvent = Callable[[Job, Event], None]
"""Told how each job gets on."""
