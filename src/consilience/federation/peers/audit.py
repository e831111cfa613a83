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


def bytes_sent(path: Path) -> int:
    """Bytes of all frames that left this site."""
    return sum(int(event["bytes"]) for event in read_audit(path) if event.get("event") == "sent")


def incidents(path: Path) -> list[str]:
    """Sentences on peers that were absent or late, on what was rejected, and on rounds that this site left out."""
    absent: dict[str, list[int]] = {}
    late: dict[str, list[int]] = {}
    rejected: dict[tuple[str, str], list[int]] = {}
    sentences = []
    for event in read_audit(path):
        kind, agent = event.get("event"), str(event.get("agent"))
        if kind == "round":
            for name in event["absent"]:
                absent.setdefault(str(name), []).append(int(event["round"]))
        elif kind == "late":
            late.setdefault(agent, []).append(int(event["round"]))
        elif kind == "rejected":
            rejected.setdefault((agent, str(event["reason"])), []).append(int(event["round"]))
        elif kind == "jump":
            sentences.append(
                f"This site went from round {event['round']} to round {event['to']}, where its peers were."
            )
        elif kind == "excluded":
            sentences.append(
                f"{agent} was excluded from round {event['round']} on: it signed two different predictions."
            )
    found = [f"{name} was absent in {_rounds(numbers)}." for name, numbers in absent.items()]
    found += [f"What {name} said came too late in {_rounds(numbers)}." for name, numbers in late.items()]
    found += [f"What {name} sent was rejected in {_rounds(n)}: {why}." for (name, why), n in rejected.items()]
    return found + sentences


def _rounds(numbers: list[int]) -> str:
    """Rounds in words, runs of them as ranges.

    >>> _rounds([4, 5, 6, 9]), _rounds([2])
    ('rounds 4-6, 9', 'round 2')
    """
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    words = ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
    return f"round{'s' if len(set(numbers)) > 1 else ''} {words}"


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
