"""The states of all members, as their signed statuses show them to one of them: no predictions."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from consilience.federation.peers.frame import Status
from consilience.federation.site import LoadedSite

FIRST, EACH = 8.0, 2.0
"""Seconds in which members may answer, at first and then each time."""


@dataclass(frozen=True)
class MemberState:
    """What one member is doing."""

    agent: str
    state: str
    """In words: round 3 of 20, finished, absent, refused and why."""
    round: int = 0
    """The round whose predictions it published last."""
    clock: float | None = None
    """Seconds that its clock is ahead of this machine's."""
    seen: float | None = None
    """When it answered last, as `time.time` counts."""


@final
class Consortium:
    """Asks all members for their statuses, over the site's own carrier.

    Args:
        loaded: The site whose keys ask. Its own agent, if it runs, is another process and answers as well.
    """

    def __init__(self, loaded: LoadedSite) -> None:
        self._loaded, self._scratch = loaded, tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        self._audit = loaded.audit(folder)
        self._exchange = loaded.exchange(folder, self._audit, lambda text: None, listen="", role="check")
        peers = [name for name in loaded.federation.names if name != loaded.site.agent]
        self.members = {name: MemberState(name, "absent") for name in peers}

    def look(self, seconds: float = EACH) -> list[MemberState]:
        """The states of all other members, in the order of the roster."""
        self._loaded.changes.look()
        statuses = self._exchange.statuses(seconds, self.members.keys() - self._loaded.changes.revoked.keys())
        for name, before in self.members.items():
            self.members[name] = self._state(before, statuses.get(name))
        return list(self.members.values())

    def _state(self, before: MemberState, status: Status | str | None) -> MemberState:
        name, rounds = before.agent, self._loaded.settings.run.rounds
        if name in self._loaded.changes.revoked:
            return MemberState(name, "revoked by a quorum")
        if status is None:
            return MemberState(name, "absent", before.round, None, before.seen)
        if isinstance(status, str):
            return MemberState(name, f"this site cannot work with it: {status}", before.round, None, time.time())
        state = f"round {status.round} of {rounds}" if status.round else "ready; round 1 has not begun"
        state = "finished" if status.round >= rounds else state
        state += "" if status.same_shared else "; its shared data differ"
        return MemberState(name, state, status.round, status.clock, time.time())

    def close(self) -> None:
        """Ends the session."""
        self._exchange.close()
        self._audit.close()
        self._scratch.cleanup()
