"""What an agent answers its peers with: its frames of the last two rounds, its status, its federation file."""

import os
import time
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.errors import ConsilienceError
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import NONCE, Format, Frame, FrameError, Receipt
from consilience.runtime.checkpoint import write_atomically
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import zenoh

SERVED = 2
"""Rounds for which an agent answers: the one it is in, and the one before."""
HELD = 8
"""Requests per agent that wait for a round to come; more are dropped."""


@final
class Outbox:
    """Frames that were signed, on disk and in memory. `answer` is called from Zenoh's threads."""

    def __init__(self, federation: Federation, me: str, signing: Ed25519PrivateKey, folder: Path) -> None:
        self._federation, self._me, self._signing, self._folder = federation, me, signing, folder
        self._place = federation.names.index(me)
        self._format = Format(federation)
        self._lock = Lock()
        self._waiting: list[tuple[float, int, zenoh.Query]] = []
        self._frames = {int(path.stem): path.read_bytes() for path in folder.glob("*.frame") if path.stem.isdecimal()}
        for data in self._frames.values():
            self._read(data)
        self.round = max(self._frames, default=0)
        """The round whose frame was published last; 0 before the first."""
        self.finished: set[str] = set()
        """Peers that have saved their last round, as they say."""
        self.shown: set[str] = set()
        """Peers that asked for the federation file."""

    def publish(self, number: int, f: Array, receipts: dict[int, Receipt]) -> tuple[Frame, int]:
        """Signs the predictions `f` of a round and answers those who wait for them. The frame, and its length.

        A round is signed once: a site that resumes publishes what it had signed before.
        """
        data = self._frames.get(number)
        if data is None:
            sequence = 1 + max((self._read(old).receipt.sequence for old in self._frames.values()), default=0)
            data = self._format.pack(self._signing, self._place, number, sequence, receipts, f)
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._folder / f"{number}.frame", data)
            _sync(self._folder)
        with self._lock:
            self._frames[number] = data
            self.round = number
            for old in sorted(self._frames)[:-SERVED]:
                del self._frames[old]
                (self._folder / f"{old}.frame").unlink(missing_ok=True)
            ready = [query for _, asked, query in self._waiting if asked <= number]
            self._waiting = [one for one in self._waiting if one[1] > number]
        for query in ready:
            self.answer(query)
        return self._read(data), len(data)

    def answer(self, query: "zenoh.Query") -> None:
        """Answers a peer's request: at once, or if it is for a later round, when that is published."""
        topic = str(query.key_expr).rpartition(f"/{self._me}/")[2]
        number = int(topic[6:]) if topic.startswith("round/") and topic[6:].isdecimal() and len(topic) < 16 else -1
        with self._lock:
            if number > self.round:
                self._hold(number, query)
                return
            data = self._frames.get(number)
            if topic in ("finished", "federation"):
                askers = self.finished if topic == "finished" else self.shown
                askers.add(query.parameters.get("from", "") or "")
        if data is not None:
            query.reply(query.key_expr, data)
        elif topic == "federation":
            query.reply(query.key_expr, self._federation.to_toml().encode())
        elif topic in ("status", "finished"):
            query.reply(query.key_expr, self._status(query))
        else:
            query.reply_err(self._status(query))
        query.drop()  # type: ignore[no-untyped-call]

    def clear(self) -> None:
        """Drops the requests that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, _, query in waiting:
            query.drop()  # type: ignore[no-untyped-call]

    def _hold(self, number: int, query: "zenoh.Query") -> None:
        now = time.monotonic()
        self._waiting = [one for one in self._waiting if now - one[0] < 2 * self._federation.deadline]
        if len(self._waiting) < HELD * len(self._federation.names):
            self._waiting.append((now, number, query))

    def _status(self, query: "zenoh.Query") -> bytes:
        try:
            nonce = bytes.fromhex(query.parameters.get("nonce", "") or "")
        except ValueError:
            nonce = b""
        padded = (nonce + bytes(NONCE))[:NONCE]
        return self._format.pack_status(self._signing, self._place, self.round, time.time(), padded)

    def _read(self, data: bytes) -> Frame:
        try:
            return self._format.unpack(data, self._place)
        except FrameError as error:
            raise ConsilienceError(
                f"what this site published before, in {self._folder}, is damaged or of another federation ({error}). "
                "Use another folder for the run."
            ) from error


def _sync(folder: Path) -> None:
    """Brings the folder to the disk: what was signed is known after a power cut, too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
