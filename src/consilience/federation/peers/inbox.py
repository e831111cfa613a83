"""Peers' answers, interpreted and checked. Anything wrong with them is logged and left out."""

import time
from collections.abc import Callable
from typing import final

from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import Format, Frame
from consilience.federation.peers.mailbox import Event
from consilience.federation.peers.sealing import Kind, Message
from consilience.federation.peers.session import ANSWER, Session
from consilience.federation.peers.untrusted_input import (
    InvalidInput,
    VersionError,
    differences_from,
    frame_from,
    receipts_from,
    status_from,
)

MOST_FILES, MOST_REASONS = 8, 12
"""Other federation files of a peer that are compared, and reasons to refuse or reject it that are logged."""
Say = Callable[[str], None]
"""Is given sentences for the operator."""


@final
class Inbox:
    """The answers of one session, and what they show of each peer."""

    def __init__(self, federation: Federation, session: Session, audit: AuditLog, say: Say) -> None:
        self._federation, self._session, self._audit, self._say = federation, session, audit, say
        self._format = Format(federation)
        self.checked: set[str] = set()
        """Peers with the same federation file."""
        self.refused: dict[str, str] = {}
        """Peers with which this site cannot work, and why: they signed another federation file."""
        self.versions: dict[str, str] = {}
        """Peers that seem to have another version. Nobody signed this: they are asked again."""
        self._same_version = set[str]()
        """Peers that sealed a message in this site's version of the protocol."""
        self._reasons: dict[str, set[str]] = {}
        """The reasons that were logged for each peer."""
        self._other_files: dict[str, dict[bytes, tuple[float, str]]] = {}
        """Per peer and identity of another federation file: when it was seen first, and what differs."""
        self._compared: dict[str, bytes] = {}
        """Per peer, the identity of the file whose fields it was asked for last."""
        self._rejected: dict[str, tuple[int, set[str]]] = {}
        """Per peer, the round of its last rejected answer, and the reasons that were logged in it."""
        self._sequences: dict[str, tuple[int, int]] = {}
        """Per peer, the round of its last accepted frame, and its sequence."""

    def next_event(self, seconds: float) -> Event | None:
        """The next event within `seconds`, with a peer's answer interpreted; None if there is nothing to do."""
        event = self._session.next_event(seconds)
        if event is None or event.kind == "reply":
            return event and self._interpret(event)
        self._audit.add(event.kind, agent=event.peer)
        self.checked.discard(event.peer)
        self.refused.pop(event.peer, None)
        self.versions.pop(event.peer, None)
        return event

    def _interpret(self, event: Event) -> Event | None:
        """Turns a peer's answer into an event of one of these kinds, with its content.

        - frame: bytes that are not checked yet
        - status: its status
        - ahead: its status, instead of a frame, because it has left the round
        - acknowledged: its status; it knows that this site has finished
        - receipts: of what it heard in a round; their signatures are not checked yet
        - rejected: nothing, because its answer is invalid, or an old one; both may be a middleman's work
        - refused: why this site cannot work with it: it has another federation file
        - version: why this site cannot work with it now: the answer is of another version, or a middleman says so
        """
        topic, nonce, message = event.content
        if isinstance(message, VersionError) and event.peer in self._same_version:
            message = InvalidInput(str(message))  # the version is not sealed: a middleman may have written it
        elif isinstance(message, Message):
            self._same_version.add(event.peer)
        try:
            if isinstance(message, InvalidInput):
                raise message
            if message.kind == Kind.FRAME:
                return event._replace(kind="frame", content=message.data)
            if message.kind == Kind.FIELDS:
                reason = f"its federation file differs in {self._difference(message.data)}"
                if run := self._compared.get(event.peer):
                    self._other_files[event.peer][run] = time.monotonic(), reason
                return self._refuse(event, reason)
            if message.kind == Kind.RECEIPTS:
                if (message.run, topic) != (self._format.run, f"receipts/{message.round}"):
                    raise InvalidInput("receipts of another round, or another run")
                return event._replace(kind="receipts", content=receipts_from(self._format, message.data))
            status = status_from(self._format, message.data, message.run, message.round, nonce)
        except VersionError as reason:
            self.versions[event.peer] = str(reason)
            self._log_refusal(event.peer, str(reason))
            return event._replace(kind="version", content=str(reason))
        except InvalidInput as reason:
            self._reject(event.peer, event.round, reason)
            return event._replace(kind="rejected")
        if not status.same_run:
            return self._compare(event, status.run)
        self.checked.add(event.peer)
        self.refused.pop(event.peer, None)
        self.versions.pop(event.peer, None)
        kind = {"status": "status", "finished": "acknowledged"}.get(topic, "ahead")
        return event._replace(kind=kind, content=status)

    def _compare(self, event: Event, run: bytes) -> Event | None:
        """Asks a peer for the fields of its federation file, once for each version of it, for a few at most."""
        known = self._other_files.setdefault(event.peer, {})
        if run not in known:
            if len(known) == MOST_FILES:
                return self._refuse(event, "it shows one other federation file after another")
            known[run] = time.monotonic(), ""
            self._compared[event.peer] = run
        since, reason = known[run]
        if reason:
            return self._refuse(event, reason)
        if time.monotonic() > since + ANSWER:
            return self._refuse(event, "its federation file is another one, and it does not show what differs")
        self._session.ask(event.peer, "federation", event.round)
        return None

    def _refuse(self, event: Event, reason: str) -> Event:
        """Leaves a peer out until it comes back."""
        self._log_refusal(event.peer, reason)
        self.refused[event.peer] = reason
        return event._replace(kind="refused", content=reason)

    def _log_refusal(self, peer: str, reason: str) -> None:
        """Logs and says each reason once, and only a few for each peer."""
        logged = self._reasons.setdefault(peer, set())
        if reason not in logged and len(logged) < MOST_REASONS:
            logged.add(reason)
            self._audit.add("refused", agent=peer, reason=reason)
            self._say(f"refused {peer}: {reason}")

    def accept(self, peer: str, number: int, data: bytes | memoryview) -> Frame | None:
        """The frame, if it is one that the peer may send; otherwise the reason is logged."""
        try:
            frame = frame_from(self._format, data, self._federation.names.index(peer), number)
            before, sequence = self._sequences.get(peer, (0, 0))
            if before < number and frame.receipt.sequence <= sequence:
                raise InvalidInput(f"sequence {frame.receipt.sequence} is not above {sequence}, that of round {before}")
        except InvalidInput as reason:
            self._reject(peer, number, reason)
            return None
        self._sequences[peer] = number, frame.receipt.sequence
        return frame

    def _reject(self, peer: str, number: int, reason: InvalidInput) -> None:
        """Logs why an answer is invalid; each reason only once a round, and only a few."""
        last, reasons = self._rejected.get(peer, (number, set[str]()))
        reasons = reasons if last == number else set()
        self._rejected[peer] = number, reasons
        if str(reason) in reasons or len(reasons) == MOST_REASONS:
            return
        reasons.add(str(reason))
        self._audit.add("rejected", round=number, agent=peer, reason=str(reason))
        self._say(f"round {number}: rejected what {peer} sent ({reason})")

    def _difference(self, data: bytes) -> str:
        """What differs between a peer's federation file and this site's."""
        try:
            return differences_from(self._federation, data)
        except InvalidInput as error:
            return f"its form: {error}"
