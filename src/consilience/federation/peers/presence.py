"""Which peers are present and which are waited for: a small file in the run folder, for the live page."""

import time
from pathlib import Path
from typing import final

from consilience.runtime.progress_file import write_quickly

PRESENCE = "presence.json"
PAUSE = 5.0
"""Seconds after which the file is written again without a change, to show that the site is alive."""
LEAST = 1.0
"""Seconds between two writes while a site waits: in a round, every answer changes who is waited for."""


@final
class Presence:
    """Keeps presence.json up to date."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / PRESENCE
        self._last: tuple[set[str], set[str]] | None = None
        self._written = 0.0

    def tell(self, present: set[str], waiting: set[str], seconds: float) -> None:
        """Notes the peers that are present, those that are waited for, and for how many seconds at most."""
        now = time.monotonic()
        pause = PAUSE if (present, waiting) == self._last else LEAST if waiting else 0
        if self._last and now - self._written < pause:
            return
        self._last, self._written = (set(present), set(waiting)), now
        content = {"time": time.time(), "until": time.time() + seconds}
        write_quickly(self._path, content | {"present": sorted(present), "waiting": sorted(waiting)})
