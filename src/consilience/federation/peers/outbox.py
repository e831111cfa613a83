"""An agent's answers to its peers: its frames of the last two rounds, its status, its federation file's fields."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import Format, Frame, Receipt
from consilience.federation.peers.untrusted_input import (
    InvalidInput,
    QuestionRecord,
    frame_from,
    question_from,
    stored_receipts,
    stored_receipts_from,
)
from consilience.federation.peers.zenoh_config import zenoh_module
from consilience.tasks.protocol import Array

if TYPE_CHECKING:
    import zenoh

SERVED = 2
"""Rounds for which an agent answers: the current one and the one before."""
HELD = 8
"""Questions of each peer that wait for a later round; more are dropped."""


@final
class Outbox:
    """Frames that were signed, on disk and in memory. `answer` is called from Zenoh's threads."""

    def __init__(
        self, federation: Federation, me: str, signing: Ed25519PrivateKey, folder: Path, role: str = "agent"
    ) -> None:
        self._federation, self._me, self._signing, self._folder = federation, me, signing, folder
        self.role = role
        self._index = federation.names.index(me)
        self._format = Format(federation)
        self._lock = Lock()
        self._waiting: list[tuple[float, QuestionRecord, zenoh.Query]] = []
        signed = {int(path.stem): path.read_bytes() for path in folder.glob("*.frame") if path.stem.isdecimal()}
        self._sequence = max((self._read(data).receipt.sequence for data in signed.values()), default=0)
        """Of the last frame that was signed."""
        self._frames: dict[int, zenoh.ZBytes] = {number: _shared(data) for number, data in signed.items()}
        self.round = max(self._frames, default=0)
        """The round whose frame was published last; 0 before the first."""
        self._writer = ThreadPoolExecutor(1, "receipts")
        self._writing: Future[None] | None = None
        """Receipts on their way to the disk."""
        self._heard: tuple[int, bytes] = (0, b"")
        """The round that was closed last, and the receipts of what was heard in it."""
        self.finished: set[str] = set()
        """Peers that have saved their last round, as they say."""
        self.shown: set[str] = set()
        """Peers that asked for the fields of the federation file."""
        self.odd = dict.fromkeys(federation.names, 0)
        """Questions of each peer that were not answered: unknown, too long, or too many at a time."""

    def publish(self, number: int, f: Array, receipts: dict[int, Receipt]) -> tuple[Frame, int]:
        """Signs the predictions `f` of a round and answers those who wait for them; the frame and its length.

        A round is signed once: a site that resumes publishes the frame that it had signed before.
        """
        self.flush()
        if number in self._frames:
            data = self._frames[number].to_bytes()
            frame = self._read(data)
        else:
            self._sequence += 1
            frame, data = self._format.make(self._signing, self._index, number, self._sequence, receipts, f)
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._folder / f"{number}.frame", data)
            self._frames[number] = _shared(data)
        with self._lock:
            self.round = number
            for old in sorted(self._frames)[:-SERVED]:
                del self._frames[old]
                (self._folder / f"{old}.frame").unlink(missing_ok=True)
            ready = [query for _, question, query in self._waiting if question.round <= number]
            self._waiting = [held for held in self._waiting if held[1].round > number]
        for query in ready:
            self.answer(query)
        return frame, len(data)

    def keep_receipts(self, number: int, receipts: dict[int, Receipt]) -> None:
        """Keeps the receipts of what was heard in a round, for peers that ask and for a restart.

        They are on the disk after `flush`; meanwhile the agent can train.
        """
        self.flush()
        data = self._format.pack_receipts(receipts)
        self._folder.mkdir(parents=True, exist_ok=True)
        content = stored_receipts(number, data)
        self._writing = self._writer.submit(write_atomically, self._folder / "receipts", content)
        with self._lock:
            self._heard = number, data

    def flush(self) -> None:
        """Returns when the receipts are on the disk; an error if they cannot be written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def kept_receipts(self) -> dict[int, Receipt]:
        """The receipts that were kept last, by index in the roster; an InvalidInput if the file is damaged."""
        path = self._folder / "receipts"
        if not path.is_file():
            return {}
        number, stored = stored_receipts_from(self._format, path.read_bytes())
        receipts = {receipt.agent: receipt for receipt in stored if self._format.is_genuine(receipt)}
        self._heard = number, self._format.pack_receipts(receipts)
        return receipts

    def answer(self, query: "zenoh.Query") -> None:
        """Answers a peer's question: at once or, if it is for a later round, when that is published.

        Anything that a peer may not ask is counted and dropped.
        """
        try:
            question = question_from(
                str(query.key_expr), str(query.parameters), self._me, self.role, self._federation.names
            )
        except InvalidInput:
            asker = str(query.key_expr).split("/")[2:3]
            if asker and asker[0] in self.odd:
                self.odd[asker[0]] += 1
            query.drop()  # type: ignore[no-untyped-call]
            return
        topic = question.topic
        with self._lock:
            if topic == "round" and question.round > self.round:
                self._hold(question, query)
                return
            data: zenoh.ZBytes | bytes | None = self._frames.get(question.round) if topic == "round" else None
            if topic == "receipts" and question.round == self._heard[0]:
                data = self._heard[1]
            if topic in ("finished", "federation"):
                (self.finished if topic == "finished" else self.shown).add(question.asker)
        if data is not None:
            query.reply(query.key_expr, data)
        elif topic == "federation":
            query.reply(query.key_expr, self._federation.packed_fields)
        elif topic in ("status", "finished"):
            query.reply(query.key_expr, self._status(question))
        else:
            query.reply_err(self._status(question))
        query.drop()  # type: ignore[no-untyped-call]

    def clear(self) -> None:
        """Drops the requests that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, _, query in waiting:
            query.drop()  # type: ignore[no-untyped-call]

    def _hold(self, question: QuestionRecord, query: "zenoh.Query") -> None:
        now = time.monotonic()
        self._waiting = [held for held in self._waiting if now - held[0] < 2 * self._federation.deadline]
        if sum(held[1].asker == question.asker for held in self._waiting) < HELD:
            self._waiting.append((now, question, query))
        else:
            self.odd[question.asker] += 1

    def _status(self, question: QuestionRecord) -> bytes:
        return self._format.pack_status(self._signing, self._index, self.round, time.time(), question.nonce)

    def _read(self, data: bytes) -> Frame:
        try:
            return frame_from(self._format, data, self._index)
        except InvalidInput as error:
            raise ConsilienceError(
                f"what this site published before, in {self._folder}, is damaged or of another federation ({error}). "
                "Use another folder for the run."
            ) from error


def _shared(data: bytes) -> "zenoh.ZBytes":
    """Bytes in Zenoh's form: one copy for all who ask."""
    return zenoh_module().ZBytes(data)  # type: ignore[no-any-return]
