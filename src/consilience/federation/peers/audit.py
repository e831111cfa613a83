"""The audit log: what a site sent, heard and rejected, why, and who was absent. Lines are only ever appended."""

import errno
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.base.chained_log import chained_line, is_line_signed, line_hash
from consilience.base.errors import ConsilienceError
from consilience.core.suspicion import SIGNS, Suspicion
from consilience.federation.peers.keys import is_signed

_PURPOSE = b"CNSJ"
"""Before what is signed: no frame and no status begins like this."""


class Monitor(Protocol):
    """What is told of every event, such as a syslog daemon."""

    def observe(self, entry: dict[str, Any]) -> None:
        """Takes in one event. It does not fail."""

    def close(self) -> None:
        """The log has ended."""


@final
class AuditLog:
    """One JSON object per line, signed with the site's key. Each holds the hash of the line before it.

    One process writes it: a second one of the same site is refused.

    Args:
        path: The file.
        signing: The site's key.
        monitors: Are told of every event that was written, and closed with the log.
    """

    def __init__(self, path: Path, signing: Ed25519PrivateKey, monitors: Sequence[Monitor] = ()) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._signing, self._monitors = signing, monitors
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # no such locks on this system
            pass
        except OSError:
            os.close(self._file)
            raise ConsilienceError(
                f"another process of this site is running: it writes {path}. End it first, or leave this one."
            ) from None
        before = path.read_bytes()
        lines = before.splitlines()
        self._last = line_hash(lines[-1]) if lines else ""
        self._lock = Lock()
        self._torn = bool(lines) and not before.endswith(b"\n")
        """The writer was killed, or the disk full, within a line."""

    def add(self, event: str, **details: Any) -> None:
        """Appends an event."""
        with self._lock:
            entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **details}
            line = chained_line(entry, self._last, _PURPOSE, self._signing.sign)
            start = b"\n" if self._torn else b""
            written = os.write(self._file, start + line + b"\n") - len(start)
            self._torn = 0 < written <= len(line)
            if written <= len(line):
                self._last = line_hash(line[:written]) if written > 0 else self._last
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._last = line_hash(line)
            for monitor in self._monitors:
                monitor.observe(entry)

    def sync(self) -> None:
        """Brings all lines to the disk."""
        os.fsync(self._file)

    def close(self) -> None:
        """Ends the log; nothing can be added afterwards."""
        os.close(self._file)
        for monitor in self._monitors:
            monitor.close()


def read_audit(path: Path) -> list[dict[str, Any]]:
    """All events, oldest first. A line cut off by a kill is passed over."""
    events = []
    for line in path.read_bytes().splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            events.append(event)
    return events


def suspicious_peers(path: Path) -> list[str]:
    """A sentence for each peer and each sign that it did not send its own model's predictions, with the rounds."""
    rounds: dict[Suspicion, list[str]] = {}
    proven = []
    for event in read_audit(path):
        agent, number = str(event.get("agent")), str(event.get("round"))
        if event["event"] == "suspicious" and event.get("sign") in SIGNS:
            rounds.setdefault(Suspicion(agent, event["sign"], str(event.get("of"))), []).append(number)
        elif event["event"] == "excluded":
            proven.append(f"{agent} signed two different predictions for round {number}.")
    return proven + [f"{sign} (round {', '.join(numbers)})." for sign, numbers in rounds.items()]


def bytes_sent(path: Path) -> int:
    """Bytes of all frames that left this site."""
    return sum(_whole(event.get("bytes")) for event in read_audit(path) if event["event"] == "sent")


def late_peers(path: Path) -> list[str]:
    """Peers whose predictions came too late, and in which rounds."""
    late: dict[str, list[int]] = {}
    for event in read_audit(path):
        if event["event"] == "late":
            late.setdefault(str(event.get("agent")), []).append(_whole(event.get("round")))
    return [f"{name} ({_rounds(numbers)})" for name, numbers in late.items()]


def privacy_spent(path: Path) -> tuple[float, float] | None:
    """Epsilon that is spent, and the budget; None where nothing is promised."""
    spent: tuple[float, float] | None = None
    for event in read_audit(path):
        if event["event"] == "ledger":
            spent = float(event["spent"]), float(event["budget"])
        elif event["event"] == "privacy" and spent is not None:
            spent = float(event["epsilon"]), spent[1]
    return spent


def incidents(path: Path) -> list[str]:
    """Sentences on peers that were absent or late, on what was rejected, and on rounds that this site left out."""
    absent: dict[str, list[int]] = {}
    late: dict[str, list[int]] = {}
    rejected: dict[tuple[str, str], list[int]] = {}
    jumps = []
    for event in read_audit(path):
        kind, agent, number = event["event"], str(event.get("agent")), _whole(event.get("round"))
        if kind == "round" and isinstance(event.get("absent"), list):
            for name in event["absent"]:
                absent.setdefault(str(name), []).append(number)
        elif kind == "late":
            late.setdefault(agent, []).append(number)
        elif kind == "rejected":
            rejected.setdefault((agent, str(event.get("reason"))), []).append(number)
        elif kind == "jump":
            to = _whole(event.get("to"))
            jumps.append(f"This site went from round {number} to round {to}, where its peers were.")
    return [
        *(f"{name} was absent in {_rounds(numbers)}." for name, numbers in absent.items()),
        *(f"What {name} said came too late in {_rounds(numbers)}." for name, numbers in late.items()),
        *(f"What {name} sent was rejected in {_rounds(n)}: {why}." for (name, why), n in rejected.items()),
        *jumps,
    ]


def _whole(value: Any) -> int:
    """A whole number of a line; 0 where the line, which somebody has damaged, has none."""
    return value if isinstance(value, int) else 0


def _rounds(numbers: list[int]) -> str:
    """Rounds in words, runs of them as ranges.

    >>> _rounds([4, 5, 6, 9]), _rounds([2])
    ('rounds 4-6, 9', 'round 2')
    """
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    words = ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in ranges)
    return f"round{'s' if len(set(numbers)) > 1 else ''} {words}"


def broken_at(path: Path, public: str = "") -> int | None:
    """The number of the first line that does not follow from the one before it; None if the log is whole.

    With the site's `public` key, also the first line that it did not sign. A line that ends too early, because its
    writer was killed, is no break if the next line follows from it.
    """
    before = ""
    lines = path.read_bytes().splitlines()
    verify = partial(is_signed, public)
    for number, line in enumerate(lines, 1):
        try:
            stated = json.loads(line)["before"]
        except (ValueError, KeyError, TypeError, RecursionError):
            stated = None
        if stated is not None and (stated != before or (public and not is_line_signed(line, _PURPOSE, verify))):
            return number
        if stated is None and number == len(lines) and path.read_bytes().endswith(b"\n"):
            return number
        before = line_hash(line)
    return None
