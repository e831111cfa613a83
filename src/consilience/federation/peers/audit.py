"""The audit log: what left the site, what was heard, rejected and why, who was absent. Lines are only ever appended."""

import errno
import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, final

from consilience.core.suspicion import Suspicion


@final
class AuditLog:
    """One JSON object per line. Each holds the hash of the line before it, so that a change is seen by `broken_at`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_bytes().splitlines() if path.exists() else []
        self._last = _hash(lines[-1]) if lines else ""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = Lock()
        self._torn = bool(lines) and not path.read_bytes().endswith(b"\n")
        """The writer was killed, or the disk full, within a line."""

    def add(self, event: str, **details: Any) -> None:
        """Appends an event."""
        with self._lock:
            entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
            line = json.dumps(entry | {"before": self._last}, ensure_ascii=False).encode()
            start = b"\n" if self._torn else b""
            written = os.write(self._file, start + line + b"\n") - len(start)
            self._torn = 0 < written <= len(line)
            if written <= len(line):
                self._last = _hash(line[:written]) if written > 0 else self._last
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._last = _hash(line)

    def sync(self) -> None:
        """Brings all lines to the disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Ends the log; nothing can be added afterwards."""
        os.close(self._file)


def read_audit(path: Path) -> list[dict[str, Any]]:
    """All events, oldest first. A line cut off by a kill is passed over."""
    events = []
    for line in path.read_bytes().splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


def suspicious_peers(path: Path) -> list[str]:
    """A sentence for each peer and sign of not saying what its own model predicts, with the rounds."""
    rounds: dict[Suspicion, list[str]] = {}
    for event in read_audit(path):
        if event.get("event") == "suspicious":
            sign = Suspicion(str(event["agent"]), str(event["sign"]), str(event["of"]))
            rounds.setdefault(sign, []).append(str(event["round"]))
    return [f"{sign} (round {', '.join(numbers)})." for sign, numbers in rounds.items()]


def broken_at(path: Path) -> int | None:
    """The number of the first line that does not follow from the one before it; None if the log is whole."""
    before = ""
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found = json.loads(line)["before"]
        except (ValueError, KeyError, TypeError):
            found = None
        if found != before and found is not None:
            return number
        before = _hash(line)
    return None


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:32]
