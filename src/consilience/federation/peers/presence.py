"""Who is there, and for whom a site waits: a small file in its run folder, for those who watch the site."""

import time
from pathlib import Path
from typing import final

from consilience.runtime.progress_file import write_quickly

PRESENCE = "presence.json"
PAUSE = 5.0
"""Seconds after which the file is written again, though nothing has changed: who reads it sees that the site lives."""
LEAST = 1.0
"""Seconds between two writings while a site waits: in a round every peer's answer changes who is waited for."""


@final
class Presence:
    """Keeps presence.json up to date."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PRESENCE
        self._told: tuple[set[str], set[str]] | None = None
        self._written = 0.0

    def tell(self, present: set[str], waiting: set[str], seconds: float) -> None:
        """Peers that are there, those that are waited for, and for how many seconds at most."""
        now = time.monotonic()
        pause = PAUSE if (present, waiting) == self._told else LEAST if waiting else 0
        if self._told and now - self._written < pause:
            return
        self._told, self._written = (set(present), set(waiting)), now
        content = {"time": time.time(), "until": time.time() + seconds}
        write_quickly(self._path, content | {"present": sorted(present), "waiting": sorted(waiting)})
