"""The exchange between organisations. Agents pull: each asks everyone present for the round it is in."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilience.errors import ConsilienceError
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.federation import LARGEST_FILE, Federation, parse_federation
from consilience.federation.peers.frame import Format, Frame, FrameError, Receipt, Status
from consilience.federation.peers.link import Tls
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.session import Event, Session
from consilience.methods.protocol import Received
from consilience.runtime.checkpoint import write_atomically
from consilience.tasks.protocol import Array

Say = Callable[[str], None]
"""Told, in a sentence, what an operator wants to know."""

GRACE = 5.0
"""Seconds in which a site that comes back finds its peers again."""


@final
class Mesh:
    """One agent's place among its peers.

    Zenoh's threads answer peers from the outbox and fill a queue; everything is decided in the loop's thread.
    """

    def __init__(
        self,
        federation: Federation,
        me: str,
        signing: Ed25519PrivateKey,
        tls: Tls,
        folder: Path,
        audit: AuditLog,
        say: Say,
        listen: str = "",
    ) -> None:
        self.roster = federation.names
        self._federation, self._me, self._folder = federation, me, folder
        self._format = Format(federation)
        self._audit, self._say = audit, say
        self._last = federation.agreed().run.rounds
        self._peers = [name for name in self.roster if name != me]
        self._outbox = Outbox(federation, me, signing, folder / "published")
        self._checked: set[str] = set()
        self._refused: dict[str, str] = {}
        self._rejected: dict[str, tuple[int, str]] = {}
        self._excluded = {path.stem for path in (folder / "evidence").glob("*.json")} - {me}
        self._receipts: dict[int, Receipt] = {}
        self._sequences: dict[str, tuple[int, int]] = {}
        self._session = Session(federation, me, tls, listen, self._outbox)

    def meet(self) -> None:
        """Waits until all peers are there, or at the deadline a quorum. A site that comes back waits a short while."""
        patience = min(GRACE, self._federation.deadline) if self._outbox.round else self._federation.deadline
        end = time.monotonic() + patience
        while True:
            here = self._checked & self._session.alive
            members = self._members()
            late = time.monotonic() > end
            if members <= here or (late and len(here) >= self._federation.quorum - 1):
                break
            self._check_quorum_is_possible()
            if late:
                self._say_waiting("before the first round", 0, here)
                end = time.monotonic() + self._federation.deadline
            for peer in sorted((members & self._session.alive) - here):
                self._session.ask(peer, "status", 0)
            self._next_event(0.2)
        self._say(f"present: {', '.join(name for name in self.roster if name in here or name == self._me)}")

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """Publishes, and hears everyone present, or at the deadline a quorum.

        A site that was away takes up the round in which its peers are; the answer says which. No round is published
        that lies before one that was: a round is signed only once.
        """
        if self._outbox.round > number:
            self._audit.add("jump", round=number, to=self._outbox.round)
        number, ahead = max(number, self._outbox.round), 0
        while True:
            own, length = self._outbox.publish(number, own_predictions[self._me], self._receipts)
            self._audit.add("sent", round=number, bytes=length, hash=own.receipt.payload_hash.hex())
            frames, ahead = self._hear(number, own, behind=ahead > 0)
            if not ahead:
                break
            self._audit.add("jump", round=number, to=ahead)
            self._say(f"peers are in round {ahead}: leaving out round {number} to {ahead - 1}")
            number = ahead
        self._close_round(number, frames)
        predictions = {name: frames[name].predictions for name in self.roster if name in frames}
        return Received(predictions, {self._me: self._format.payload * (len(frames) - 1)}, number)

    def finish(self) -> None:
        """Goes on answering until every peer has finished and knows that this site has, or for one deadline.

        To have fetched the last round is not enough: a peer that is killed before it has saved it asks again.
        """
        self._audit.add("finished", round=self._outbox.round)
        end, told, said = time.monotonic() + self._federation.deadline, set[str](), set[str]()
        while time.monotonic() < end:
            members = self._members()
            missing = members - self._outbox.finished
            if not missing and members <= told:
                return
            if missing and missing != said:
                self._say(f"finished; still answering for {', '.join(sorted(missing))}")
                said = missing
            for peer in sorted((members & self._session.alive) - told):
                self._session.ask(peer, "finished", self._outbox.round)
            event = self._next_event(0.2)
            if event is not None and event.kind in ("told", "here"):
                (told.add if event.kind == "told" else told.discard)(event.peer)

    def close(self) -> None:
        """Leaves."""
        self._audit.sync()
        self._session.close()

    def statuses(self, seconds: float) -> dict[str, Status | str]:
        """What each peer says of itself within so many seconds, its clock against ours, or why it is not one of us."""
        end, found = time.monotonic() + seconds, dict[str, Status | str]()
        while time.monotonic() < end and len(found) < len(self._peers):
            for peer in sorted(self._session.alive - found.keys()):
                self._session.ask(peer, "status", 0)
            event = self._next_event(0.2)
            if event is not None and event.kind == "status":
                found[event.peer] = replace(event.content, clock=event.content.clock - time.time())
            elif event is not None and event.kind == "refused":
                found[event.peer] = event.content
        return found

    def _hear(self, number: int, own: Frame, behind: bool) -> tuple[dict[str, Frame], int]:
        """Frames of the round by agent, and 0; or a later round, if this one cannot be closed any more.

        That is one in which a quorum is, or, below a quorum at the deadline (or `behind` already) when all present
        have answered, one in which anybody is: sites whom a fault left in different rounds so meet in the latest.
        """
        needed = self._federation.quorum - 1
        heard: dict[str, Frame] = {}
        given_up: set[str] = set()
        left: dict[str, int] = {}
        deadline = next_notice = time.monotonic() + self._federation.deadline
        while True:
            now = time.monotonic()
            present = self._members() & self._session.alive
            waiting = present - heard.keys() - given_up
            if len(heard) >= needed and (now > deadline or not waiting):
                frames = heard | {self._me: own}
                if not self._equivocation(frames):
                    return frames, 0
                heard = {peer: frame for peer, frame in heard.items() if peer not in self._excluded}
                continue
            later = sorted(left.values(), reverse=True)
            if len(later) >= needed:
                return {}, later[needed - 1]
            if later and not waiting and (behind or now > deadline):
                return {}, later[0]
            self._check_quorum_is_possible()
            if now > next_notice:
                next_notice = now + self._federation.deadline
                self._say_waiting(f"round {number}", number, set(heard))
            for peer in sorted(waiting):
                self._session.ask(peer, f"round/{number}" if peer in self._checked else "status", number)
            event = self._next_event(0.2)
            if event is None:
                continue
            if event.kind == "here":
                given_up.discard(event.peer)
            elif event.round != number:
                if event.kind == "frame":
                    self._audit.add("late", round=event.round, agent=event.peer, now=number)
            elif event.kind == "rejected":
                given_up.add(event.peer)
            elif event.kind == "ahead":
                given_up.add(event.peer)
                if event.content.round > number:
                    left[event.peer] = event.content.round
            elif event.kind == "frame":
                frame = self._accepted(event.peer, number, event.content)
                if frame is None:
                    given_up.add(event.peer)
                elif event.peer in heard and heard[event.peer].receipt.contradicts(frame.receipt):
                    self._exclude(event.peer, heard.pop(event.peer).receipt, frame.receipt, event.peer)
                else:
                    heard[event.peer] = frame

    def _accepted(self, peer: str, number: int, data: bytes) -> Frame | None:
        """The frame, if it is one that the peer may send; otherwise the reason is logged."""
        try:
            frame = self._format.unpack(data, self.roster.index(peer), number)
            before, sequence = self._sequences.get(peer, (0, 0))
            if before < number and frame.receipt.sequence <= sequence:
                raise FrameError(f"sequence {frame.receipt.sequence} is not above {sequence}, that of round {before}")
        except FrameError as reason:
            self._reject(peer, number, data, reason)
            return None
        self._sequences[peer] = number, frame.receipt.sequence
        return frame

    def _reject(self, peer: str, number: int, data: bytes, reason: FrameError) -> None:
        """Logs why something is not accepted; said again and again, once a round."""
        if self._rejected.get(peer) == (number, str(reason)):
            return
        self._rejected[peer] = number, str(reason)
        self._audit.add("rejected", round=number, agent=peer, bytes=len(data), reason=str(reason))
        self._say(f"round {number}: rejected what {peer} sent ({reason})")

    def _equivocation(self, frames: dict[str, Frame]) -> bool:
        """Whether somebody signed two different things for one round, as receipts show; who did is excluded."""
        before = len(self._excluded)
        known = {(r.agent, r.round): r for r in (*self._receipts.values(), *(f.receipt for f in frames.values()))}
        for reporter, frame in frames.items():
            for receipt in frame.others:
                mine = known.get((receipt.agent, receipt.round))
                if self.roster[receipt.agent] in self._excluded:
                    continue
                if (mine is None or receipt.contradicts(mine)) and self._format.is_genuine(receipt):
                    known[receipt.agent, receipt.round] = receipt
                    if mine is not None:
                        self._exclude(self.roster[receipt.agent], mine, receipt, reporter)
        return len(self._excluded) > before

    def _close_round(self, number: int, frames: dict[str, Frame]) -> None:
        """Keeps receipts of what was heard for the next frame, and logs the round."""
        self._receipts = {self.roster.index(name): frame.receipt for name, frame in frames.items()}
        absent = [name for name in self.roster if name not in frames]
        heard = {name: frame.receipt.payload_hash.hex() for name, frame in frames.items() if name != self._me}
        self._audit.add("round", round=number, heard=heard, absent=absent)
        self._audit.sync()
        if absent:
            self._say(f"round {number}: without {', '.join(absent)}")

    def _exclude(self, name: str, one: Receipt, other: Receipt, reporter: str) -> None:
        """Keeps both signed statements as evidence; from now on the agent is not heard."""
        receipts = [{"round": r.round, "sequence": r.sequence, "packed": r.pack().hex()} for r in (one, other)]
        evidence = {"agent": name, "run": self._format.run.hex(), "heard through": reporter, "receipts": receipts}
        path = self._folder / "evidence" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(evidence, indent=2).encode())
        self._audit.add("excluded", round=one.round, agent=name, evidence=str(path))
        if name == self._me:
            raise ConsilienceError(
                f"someone else signs with this site's key (evidence: {path}). Tell the others, and make a new key."
            )
        self._excluded.add(name)
        self._say(f"{name} signed two different predictions for round {one.round}: excluded; evidence in {path}")

    def _say_waiting(self, when: str, number: int, found: set[str]) -> None:
        self._audit.add("waiting", round=number, found=sorted(found), quorum=self._federation.quorum)
        missing = ", ".join(name for name in self._peers if name not in found)
        self._say(f"{when}: {len(found) + 1} agents of {self._federation.quorum} needed; waiting for {missing}")

    def _members(self) -> set[str]:
        """Peers that may be heard."""
        return set(self._peers) - self._excluded - self._refused.keys()

    def _check_quorum_is_possible(self) -> None:
        if len(self._peers) - len(self._excluded) < self._federation.quorum - 1:
            raise ConsilienceError(
                f"{', '.join(sorted(self._excluded))} signed two different predictions for one round; without that, "
                f"{len(self._peers) - len(self._excluded) + 1} agents are left and {self._federation.quorum} are "
                "needed. Agree on a new federation file."
            )
        if len(self._members()) < self._federation.quorum - 1:
            reasons = "; ".join(f"{peer}: {why}" for peer, why in sorted(self._refused.items()))
            self._show_federation_file()
            raise ConsilienceError(
                f"this site's federation file is not that of its peers: {reasons}. "
                "All sites need the same file; get it again from the others."
            )

    def _show_federation_file(self) -> None:
        """Stays for a moment, so that peers can read what differs and log it."""
        end = time.monotonic() + min(GRACE, self._federation.deadline)
        while time.monotonic() < end and not self._outbox.shown.issuperset(self._peers):
            self._next_event(0.2)

    def _next_event(self, seconds: float) -> Event | None:
        """The next event of interest within so many seconds, understood.

        Answers are a frame, a status, ahead (its status, because it has left the round), told (its status: it knows
        that this site has finished), rejected, or refused (with the reason).
        """
        event = self._session.next_event(seconds)
        if event is None or event.kind in ("reply", "error"):
            return event and self._understood(event)
        self._audit.add(event.kind, agent=event.peer)
        self._checked.discard(event.peer)
        self._refused.pop(event.peer, None)
        return event

    def _understood(self, event: Event) -> Event | None:
        """A peer's answer as a frame (not yet checked), a status, ahead, told, or refused."""
        tail, nonce, data = event.content
        if event.kind == "reply" and tail.startswith("round"):
            return event._replace(kind="frame", content=data)
        if event.kind == "reply" and tail == "federation":
            self._refused[event.peer] = reason = self._difference(data)
            self._audit.add("refused", agent=event.peer, reason=reason)
            self._say(f"refused {event.peer}: its federation file differs in {reason}")
            return event._replace(kind="refused", content=reason)
        try:
            status = self._format.unpack_status(data, self.roster.index(event.peer), nonce)
            if status.same_run and status.round > self._last:
                raise FrameError(f"a status of round {status.round}; the last is {self._last}")
        except FrameError as reason:
            self._reject(event.peer, event.round, data, reason)
            return event._replace(kind="rejected")
        if not status.same_run:
            self._session.ask(event.peer, "federation", event.round)
            return None
        self._checked.add(event.peer)
        kind = {"status": "status", "finished": "told"}.get(tail, "ahead")
        return event._replace(kind=kind, content=status)

    def _difference(self, data: bytes) -> str:
        try:
            other = parse_federation(data[:LARGEST_FILE].decode(), "it")
        except (ConsilienceError, UnicodeDecodeError) as error:
            return f"its form: {error}"
        return "; ".join(self._federation.differences(other)) or "nothing that it shows"
