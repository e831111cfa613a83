"""An agent's answers to its peers: its frames of the last two rounds, its status, its federation file's fields."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import final

from consilience.base.errors import ConsilienceError
from consilience.base.files import write_atomically
from consilience.federation.peers.carrier import Query
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import NONCE, Format, Frame, Receipt
from consilience.federation.peers.keys import SiteKeys
from consilience.federation.peers.sealing import Kind, Sealer, version_hint
from consilience.federation.peers.untrusted_input import (
    InvalidInput,
    QuestionRecord,
    VersionError,
    frame_from,
    question_from,
    stored_receipts,
    stored_receipts_from,
)
from consilience.tasks.protocol import Array

SERVED = 2
"""Rounds for which an agent answers: the current one and the one before."""
HELD = 8
"""Questions of each peer that wait for a later round; more are dropped."""


@final
class Outbox:
    """Frames that were signed, on disk and in memory. `answer` is called from threads of the carriers."""

    def __init__(
        self, federation: Federation, me: str, keys: SiteKeys, folder: Path, blocked: Collection[str] = ()
    ) -> None:
        self._federation, self._me, self._folder = federation, me, folder
        self._signing, self._sealer = keys.signing, Sealer(federation, me, keys)
        self.blocked = set(blocked)
        """Peers that a quorum has revoked."""
        self._index = federation.names.index(me)
        self._format = Format(federation)
        self._lock = Lock()
        self._waiting: list[tuple[float, QuestionRecord, Query]] = []
        signed = {int(path.stem): path.read_bytes() for path in folder.glob("*.frame") if path.stem.isdecimal()}
        self._sequence = max((self._read(data).receipt.sequence for data in signed.values()), default=0)
        """Of the last frame that was signed."""
        self._frames = signed
        self._sealed: dict[int, bytes] = {}
        """Frames as they are sent."""
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
        self.odd = dict.fromkeys(("", *federation.names), 0)
        """Questions of each peer that were not answered: unknown, or too many at a time; "" has those of nobody."""

    @property
    def rounds(self) -> list[int]:
        """Rounds whose frames it has."""
        return sorted(self._frames)

    def publish(self, number: int, f: Array, receipts: dict[int, Receipt]) -> tuple[Frame, int]:
        """Signs the predictions `f` of a round and answers those who wait for them; the frame and its length.

        A round is signed once: a site that resumes publishes the frame that it had signed before.
        """
        self.flush()
        if number in self._frames:
            data = self._frames[number]
            frame = self._read(data)
        else:
            self._sequence += 1
            frame, data = self._format.make(self._signing, self._index, number, self._sequence, receipts, f)
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._folder / f"{number}.frame", data)
            self._frames[number] = data
        with self._lock:
            self.round = number
            for old in sorted(self._frames)[:-SERVED]:
                del self._frames[old]
                (self._folder / f"{old}.frame").unlink(missing_ok=True)
            ready = [held for held in self._waiting if held[1].round <= number]
            self._waiting = [held for held in self._waiting if held[1].round > number]
        for _, question, query in ready:
            query.reply(self.document("round", question.round, [question.asker]))
            query.drop()
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

    def answer(self, query: Query) -> None:
        """Answers a peer's question: at once or, if it is for a later round, when that is published.

        Anything that a peer may not ask is counted and dropped.
        """
        asker = ""
        try:
            message = self._sealer.open(query.message, Kind.QUESTION)
            asker = message.sender
            question = question_from(asker, message.round, bytes(message.data))
            if asker in self.blocked:
                raise InvalidInput("revoked")
        except InvalidInput as error:
            self.odd[asker] += 1
            if isinstance(error, VersionError):
                query.reply(version_hint())
            query.drop()
            return
        with self._lock:
            if question.topic == "round" and question.round > self.round:
                self._hold(question, query)
                return
            if question.topic in ("finished", "federation"):
                (self.finished if question.topic == "finished" else self.shown).add(asker)
        query.reply(self.document(question.topic, question.round, [asker], question.nonce))
        query.drop()

    def document(self, topic: str, number: int, readers: Sequence[str], nonce: bytes = bytes(NONCE)) -> bytes:
        """What this site has on a topic, sealed; its status instead of a frame or receipts that it does not have."""
        if topic == "federation":
            return self._sealer.seal(Kind.FIELDS, self._federation.packed_fields, readers)
        with self._lock:
            heard, now = self._heard, self.round
            if topic == "round" and number in self._frames:
                if number not in self._sealed:
                    everyone = [name for name in self._federation.names if name not in {self._me, *self.blocked}]
                    self._sealed = {n: data for n, data in self._sealed.items() if n in self._frames}
                    self._sealed[number] = self._sealer.seal(Kind.FRAME, self._frames[number], everyone, number)
                return self._sealed[number]
        if topic == "receipts" and number == heard[0]:
            return self._sealer.seal(Kind.RECEIPTS, heard[1], readers, number)
        return self._sealer.seal(Kind.STATUS, self._format.pack_status(time.time(), nonce), readers, now)

    def block(self, peers: Collection[str]) -> None:
        """Answers these peers no more, and seals no frame for them."""
        with self._lock:
            self.blocked |= set(peers)
            self._sealed = {}

    def clear(self) -> None:
        """Drops the requests that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for _, _, query in waiting:
            query.drop()

    def _hold(self, question: QuestionRecord, query: Query) -> None:
        now = time.monotonic()
        self._waiting = [held for held in self._waiting if now - held[0] < 2 * self._federation.deadline]
        if sum(held[1].asker == question.asker for held in self._waiting) < HELD:
            self._waiting.append((now, question, query))
        else:
            self.odd[question.asker] += 1

    def _read(self, data: bytes) -> Frame:
        try:
            return frame_from(self._format, data, self._index)
        except InvalidInput as error:
            raise ConsilienceError(
                f"what this site published before, in {self._folder}, is damaged or of another federation ({error}). "
                "Use another folder for the run."
            ) from error
