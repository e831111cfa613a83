"""The exchange between organisations: each agent asks all present peers for the predictions of its current round."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.core.suspicion import suspicions
from consilience.federation.peers.admitted_peers import AdmittedPeers
from consilience.federation.peers.audit import AuditLog
from consilience.federation.peers.equivocation import Equivocation
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import Format, Frame, Receipt, Status
from consilience.federation.peers.inbox import Inbox, Say
from consilience.federation.peers.keys import SiteKeys
from consilience.federation.peers.mailbox import Event
from consilience.federation.peers.network import Network
from consilience.federation.peers.open_round import REJECTED, OpenRound
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.presence import Presence
from consilience.federation.peers.sealing import Sealer
from consilience.federation.peers.session import Session
from consilience.federation.peers.signed_changes import SignedChanges
from consilience.federation.peers.untrusted_input import InvalidInput
from consilience.methods.protocol import Received
from consilience.tasks.protocol import Array

NOTICE = 10.0
"""Seconds between two messages that say for whom a site waits."""
GRACE = 5.0
"""Seconds for which a site that comes back waits for its peers, at most."""
MISSES = 3
"""Missed rounds in a row after which a present but silent peer is waited for only briefly."""
Release = Callable[[Array], Array]
"""Turns a site's predictions into those that may leave it."""


@final
class SiteExchange:
    """One site's exchange of predictions with its peers.

    The carriers' threads answer peers from the outbox and fill a queue; the loop's thread decides everything.

    Args:
        federation: The federation.
        me: The site's name.
        keys: Its private keys.
        network: How it reaches its peers.
        folder: The run folder.
        audit: Its audit log.
        say: Is given sentences for the operator.
        role: agent or check.
        changes: Changes of the roster that a quorum signed.
        release: The owner's filter of what leaves the site; None lets all out.
    """

    def __init__(
        self,
        federation: Federation,
        me: str,
        keys: SiteKeys,
        network: Network,
        folder: Path,
        audit: AuditLog,
        say: Say,
        role: str = "agent",
        changes: SignedChanges | None = None,
        release: Release | None = None,
    ) -> None:
        changes = changes or SignedChanges(federation, None)
        changes.check_own_site(me)
        self.roster = federation.names
        self.samples = {member.agent: member.samples for member in federation.roster if member.samples}
        self._federation, self._me, self._folder = federation, me, folder
        self._format = Format(federation)
        self._audit, self._say, self._presence = audit, say, Presence(folder)
        self._peers, self._release = [name for name in self.roster if name != me], release
        self._outbox = Outbox(federation, me, keys, folder / "published", changes.revoked)
        self._receipts: dict[int, Receipt] = self._stored_receipts()
        """Of the last exchange, by index in the roster."""
        self._misses: dict[str, int] = {}
        """Rounds in a row in which each peer was present and silent."""
        self._logged_drops = dict.fromkeys(self._peers, 0)
        """Dropped questions and answers of each peer, as last logged."""
        self._before: dict[str, Array] = {}
        """Predictions of the last exchange, by agent."""
        self._session = Session(federation, me, network, self._outbox, Sealer(federation, me, keys), role)
        self._inbox = Inbox(federation, self._session, audit, say)
        self._admitted = AdmittedPeers(federation, me, folder, changes, self._inbox, self._outbox, audit, say)

    def _stored_receipts(self) -> dict[int, Receipt]:
        """The receipts of before this process started. If the file is damaged, the site says so and goes on."""
        try:
            return self._outbox.kept_receipts()
        except InvalidInput as error:
            self._audit.add("damaged", file="published/receipts", reason=str(error))
            self._say(f"the receipts in {self._folder / 'published'} are left out: {error}")
            return {}

    _waits: tuple[str, float] = ("", 0.0)
    """What is waited for, and since when or when this was said last."""

    def wait_for_peers(self) -> None:
        """Waits until all peers are ready to publish; after `start_wait` seconds a quorum is enough.

        A site that comes back waits only briefly.
        """
        patience = min(GRACE, self._federation.deadline) if self._outbox.round else self._federation.start_wait
        end = time.monotonic() + patience
        while True:
            self._admitted.apply_roster_change()
            here = self._inbox.checked & self._session.alive
            members = self._admitted.members
            late = time.monotonic() > end
            if members <= here or (late and len(here) >= self._federation.quorum - 1):
                break
            self._admitted.check_quorum_is_possible()
            self._reconnect_if_isolated("before the first round", 0)
            if late:
                self._say_waiting("before the first round", 0, here)
                end = time.monotonic() + self._federation.deadline
            self._say_left("before the first round", members - here, end)
            for peer in sorted((members & self._session.alive) - here):
                self._session.ask(peer, "status", 0)
            self._inbox.next_event(0.2)
        self._say(f"present: {', '.join(name for name in self.roster if name in here or name == self._me)}")

    def gather(self, number: int, own_predictions: dict[str, Array]) -> Received:
        """Publishes, and collects the predictions of all present peers or, at the deadline, of a quorum.

        A site that was away goes on in the current round of its peers; the result says which. It never goes back before
        the last round it published: a round is signed only once.
        """
        if self._outbox.round > number:
            self._audit.add("jump", round=number, to=self._outbox.round)
        number, ahead = max(number, self._outbox.round), 0
        f = own_predictions[self._me]
        f = self._release(f) if self._release else f
        while True:
            for peer in sorted(self._admitted.members & self._session.alive & self._inbox.checked):
                self._session.ask(peer, f"round/{number}", number)  # they answer while our frame goes to the disk
            own, length = self._outbox.publish(number, f, self._receipts)
            self._session.publish("round", number)
            self._audit.add("sent", round=number, bytes=length, hash=own.receipt.payload_hash.hex())
            frames, ahead = self._collect(number, own, behind=ahead > 0)
            if not ahead:
                break
            self._audit.add("jump", round=number, to=ahead)
            self._say(f"peers are in round {ahead}: leaving out round {number} to {ahead - 1}")
            number = ahead
        self._close_round(number, frames)
        predictions = {name: frames[name].predictions for name in self.roster if name in frames}
        predictions = self._without_suspicious(number, predictions)
        return Received(predictions, {self._me: self._format.payload * (len(frames) - 1)}, number)

    def _without_suspicious(self, number: int, predictions: dict[str, Array]) -> dict[str, Array]:
        """Reports peers that repeat themselves, each other or this site; leaves them out if the federation says so."""
        suspects = set[str]()
        for suspicion in suspicions(self._me, predictions, self._before):
            suspects.add(suspicion.agent)
            self._audit.add("suspicious", round=number, agent=suspicion.agent, sign=suspicion.sign, of=suspicion.of)
            self._say(f"round {number}: suspicious: {suspicion}")
        self._before = predictions
        if self._federation.on_suspicion == "warn":
            return predictions
        return {name: f for name, f in predictions.items() if name not in suspects}

    def finish(self, seconds: float | None = None) -> None:
        """Exchanges the receipts of the last round, and answers until every peer has finished and has this site's.

        It does so for `seconds`, or for one deadline. It is not enough that a peer has fetched the last round: if it is
        killed before it has saved it, it asks again.
        """
        number = self._outbox.round
        self._outbox.flush()
        self._audit.add("finished", round=number)
        self._session.publish("finished", number)
        end = time.monotonic() + (self._federation.deadline if seconds is None else seconds)
        acknowledged, announced, closing = set[str](), set[str](), dict[str, tuple[Receipt, ...]]()
        rejected = Counter[str]()
        while time.monotonic() < end:
            self._admitted.apply_roster_change()
            members = self._admitted.members
            missing = members - self._outbox.finished
            self._presence.tell(self._session.alive, missing, end - time.monotonic())
            if not missing and members <= acknowledged:
                return
            if missing and missing != announced:
                self._say(f"finished; still answering for {', '.join(sorted(missing))}")
                announced = missing
            for peer in sorted((members & self._session.alive) - acknowledged):
                self._session.ask(peer, "finished" if peer in closing else f"receipts/{number}", number)
            event = self._inbox.next_event(0.2)
            if event is None:
                continue
            if event.kind == "receipts":
                closing[event.peer] = event.content
                self._admitted.exclude_equivocators(self._receipts.values(), {event.peer: event.content})
            elif event.kind == "acknowledged":
                acknowledged.add(event.peer)
            elif event.kind == "here":
                acknowledged.discard(event.peer)
            rejected[event.peer] += event.kind in ("rejected", "version")
            no_receipts = event.kind == "ahead" or rejected[event.peer] >= REJECTED
            if no_receipts and event.peer in self._outbox.finished:
                closing[event.peer] = ()

    def state(self) -> dict[str, Array]:
        """The run and the agent, for a checkpoint. Receipts are on the disk first."""
        self._outbox.flush()
        return {"run": np.frombuffer(self._format.run + self._me.encode(), np.uint8)}

    def restore(self, state: dict[str, Array]) -> None:
        """Refuses the checkpoint of another run."""
        if "run" not in state or state["run"].tobytes() != self._format.run + self._me.encode():
            raise ConsilienceError(
                f"the checkpoint in {self._folder} is of another run, or of another site. Restore the right one."
            )

    def close(self) -> None:
        """Ends the session."""
        self._audit.sync()
        self._session.close()

    def statuses(self, seconds: float, peers: Collection[str]) -> dict[str, Status | str]:
        """The status of each of these peers that answers within `seconds`, or why it is refused.

        A status has the difference between the peer's clock and this site's.
        """
        end, statuses = time.monotonic() + seconds, dict[str, Status | str]()
        while time.monotonic() < end and not statuses.keys() >= set(peers):
            for peer in sorted((self._session.alive & set(peers)) - statuses.keys()):
                self._session.ask(peer, "status", 0)
            event = self._inbox.next_event(0.2)
            if event is not None and event.kind == "status":
                statuses[event.peer] = replace(event.content, clock=event.content.clock - time.time())
            elif event is not None and event.kind in ("refused", "version"):
                statuses[event.peer] = event.content
        return statuses

    def answer_checks(self, seconds: float) -> None:
        """Tells peers' checks that this one is done, and answers until they are done, for at most `seconds`."""
        end, informed = time.monotonic() + seconds, set[str]()
        while time.monotonic() < end:
            checks = {peer for peer, ways in self._session.ways.items() if any(role == "check" for _, role in ways)}
            if checks <= informed & self._outbox.finished:
                return
            for peer in sorted(checks - informed):
                self._session.ask(peer, "finished", 0)
            event = self._inbox.next_event(0.2)
            if event is not None and event.kind in ("acknowledged", "refused", "version"):
                informed.add(event.peer)

    def _collect(self, number: int, own: Frame, behind: bool) -> tuple[dict[str, Frame], int]:
        """Frames of the round by agent, and 0; or none, and the later round in which to go on."""
        opened, patience = time.monotonic(), self._federation.deadline
        next_notice = opened + patience
        open_round = OpenRound(
            number, self._federation.quorum - 1, self._federation.enough_claims, opened + patience, behind
        )
        while True:
            self._admitted.apply_roster_change()
            open_round.drop(self._admitted.excluded)
            now = time.monotonic()
            present = self._admitted.members & self._session.alive
            waiting = open_round.waiting(present) - self._inbox.versions.keys()
            awaited = waiting if now < opened + max(1.0, patience / 20) else waiting - self._silent()
            if open_round.can_close(awaited, now):
                frames = open_round.frames | {self._me: own}
                known = [*self._receipts.values(), *(frame.receipt for frame in frames.values())]
                brought = {name: frame.others for name, frame in frames.items()}
                if not self._admitted.exclude_equivocators(known, brought):
                    self._count_misses(waiting, frames)
                    return frames, 0
                open_round.drop(self._admitted.excluded)
                continue
            later = open_round.later_round(awaited, now)
            if later:
                return {}, later
            self._admitted.check_quorum_is_possible()
            self._reconnect_if_isolated(f"round {number}", number)
            if now > next_notice:
                next_notice = now + patience
                self._say_waiting(f"round {number}", number, set(open_round.frames))
            self._say_left(f"round {number}", waiting, next_notice)
            for peer in sorted(open_round.unanswered(present)):
                self._session.ask(peer, f"round/{number}" if peer in self._inbox.checked else "status", number)
            if not awaited or now > open_round.deadline:  # in which rounds are those who have answered?
                for peer in sorted(present - waiting - open_round.rounds_ahead.keys()):
                    self._session.ask(peer, "status", number)
            event = self._inbox.next_event(0.2)
            if event is not None:
                self._take(event, open_round)

    def _silent(self) -> set[str]:
        """Peers that are waited for only briefly, until they answer in time again."""
        return {peer for peer, misses in self._misses.items() if misses >= MISSES}

    def _count_misses(self, waiting: set[str], frames: dict[str, Frame]) -> None:
        for peer in self._peers:
            before = self._misses.get(peer, 0)
            self._misses[peer] = 0 if peer in frames else before + (peer in waiting)
            if self._misses[peer] == MISSES != before:
                self._say(f"{peer} is present but silent: it is waited for only briefly, until it answers again")

    def _take(self, event: Event, open_round: OpenRound) -> None:
        """Updates the round with an event."""
        if event.kind == "here":
            open_round.given_up.discard(event.peer)
            del open_round.rejected[event.peer]
        elif event.round != open_round.number:
            if event.kind == "frame":
                self._audit.add("late", round=event.round, agent=event.peer, now=open_round.number)
        elif event.kind in ("rejected", "version"):
            open_round.rejected[event.peer] += 1
        elif event.kind == "ahead":
            open_round.peer_is_ahead(event.peer, event.content.round)
        elif event.kind == "status":
            open_round.peer_says(event.peer, event.content.round)
        elif event.kind == "frame" and event.peer not in self._admitted.excluded:
            self._take_frame(event.peer, event.content, open_round)

    def _take_frame(self, peer: str, data: bytes, open_round: OpenRound) -> None:
        """Adds a peer's frame to the round, if it is valid and the peer has sent no other one."""
        frame = self._inbox.accept(peer, open_round.number, data)
        before = open_round.frames.get(peer)
        if frame is None:
            open_round.rejected[peer] += 1
        elif before is not None and before.receipt.contradicts(frame.receipt):
            del open_round.frames[peer]
            self._admitted.exclude(Equivocation(peer, before.receipt, frame.receipt, reporter=peer))
        else:
            open_round.frames[peer] = frame

    def _close_round(self, number: int, frames: dict[str, Frame]) -> None:
        """Keeps the receipts of the round, which go into the next frame, and logs the round."""
        heard_now = {self.roster.index(name): frame.receipt for name, frame in frames.items()}
        self._receipts = heard_now | self._admitted.stories(number)
        self._outbox.keep_receipts(number, self._receipts)
        self._session.publish("receipts", number)
        absent = [name for name in self.roster if name not in frames]
        heard = {name: frame.receipt.payload_hash.hex() for name, frame in frames.items() if name != self._me}
        self._audit.add("round", round=number, heard=heard, absent=absent)
        self._presence.tell(self._session.alive, set(), 0)
        self._log_drops(number)
        self._audit.sync()
        if absent:
            self._say(f"round {number}: without {', '.join(absent)}")

    def _log_drops(self, number: int) -> None:
        """Logs how many questions and answers of each peer were dropped, when there are new ones."""
        for peer in self._peers:
            count = self._outbox.odd[peer] + self._session.dropped[peer]
            if count > self._logged_drops[peer]:
                self._logged_drops[peer] = count
                self._audit.add("dropped", round=number, agent=peer, count=count)

    def _say_left(self, when: str, missing: set[str], end: float) -> None:
        """Says every few seconds for whom the site waits, and for how long at most."""
        now = time.monotonic()
        self._presence.tell(self._session.alive, missing, end - now)
        if when != self._waits[0]:
            self._waits = (when, now)
        elif missing and now - self._waits[1] > NOTICE and end > now:
            self._waits = (when, now)
            minutes, seconds = divmod(int(end - now), 60)
            self._say(f"{when}: waiting for {', '.join(sorted(missing))}, deadline in {minutes}:{seconds:02}")

    def _reconnect_if_isolated(self, when: str, number: int) -> None:
        """Reconnects a site that has seen too few peers for long: its links may be dead."""
        if self._session.reconnect_if_isolated(self._federation.quorum - 1):
            self._audit.add("reconnected", round=number)
            self._say(f"{when}: too few peers are seen: reconnected, in case the links of this site are dead")

    def _say_waiting(self, when: str, number: int, heard: set[str]) -> None:
        self._audit.add("waiting", round=number, found=sorted(heard), quorum=self._federation.quorum)
        why = {name: f" ({reason})" for name, reason in self._inbox.versions.items()}
        missing = ", ".join(f"{name}{why.get(name, '')}" for name in self._peers if name not in heard)
        self._say(f"{when}: {len(heard) + 1} agents of {self._federation.quorum} needed; waiting for {missing}")
