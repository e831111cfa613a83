"""Requests to peers, and which of them are present. Carriers' threads fill a mailbox; the loop's thread empties it."""

import secrets
import time
from datetime import UTC, datetime
from math import inf
from typing import final

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.carrier import ROLES
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import NONCE
from consilience.federation.peers.keys import read_certificate
from consilience.federation.peers.mailbox import Event, Mailbox
from consilience.federation.peers.network import Network, open_carriers
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.sealing import Kind, Sealer
from consilience.federation.peers.untrusted_input import InvalidInput

FIRST_PAUSE, PAUSE = 0.1, 1.0
"""Seconds before a request is repeated that brought no useful answer: at first, then twice as long each time up to the
second number."""
ANSWER = 5.0
"""Seconds within which a request is answered that does not wait for a round."""
ALONE, LONGEST_ALONE = 30.0, 240.0
"""Seconds with too few peers after which a site reconnects; they double each time, up to the second number.

The first is three times Zenoh's lease, within which both ends should give up a dead link.
"""
UNREADABLE = 8
"""Answers to one request that are opened, at most: a middleman may add some."""
KINDS = {
    "status": (Kind.STATUS,),
    "finished": (Kind.STATUS,),
    "federation": (Kind.FIELDS, Kind.STATUS),
    "round": (Kind.FRAME, Kind.STATUS),
    "receipts": (Kind.RECEIPTS, Kind.STATUS),
}
"""What may answer a request."""


@final
class Session:
    """One agent's session. It answers from the outbox, asks peers, and watches which of them are present.

    For an agent, a peer is present while its agent runs; for a check, also while its check runs.
    """

    def __init__(
        self, federation: Federation, me: str, network: Network, outbox: Outbox, sealer: Sealer, role: str = "agent"
    ) -> None:
        self._federation, self._me, self._network, self._outbox = federation, me, network, outbox
        self._sealer, self._role = sealer, role
        self._peers = [name for name in federation.names if name != me]
        self._alone: tuple[float, float] | None = None
        """Since when too few peers are present, and after how many seconds this site reconnects."""
        self._connect()

    def reconnect_if_isolated(self, enough: int) -> bool:
        """Opens a new session if fewer than `enough` peers have been present for long; returns whether it did.

        A peer that believes a session's dead link to be alive refuses another link of that session for ever, but
        accepts one of a new session, which has another identity.
        """
        now = time.monotonic()
        if len(self.ways) >= enough:
            self._alone = None
            return False
        since, patience = self._alone or (now, ALONE)
        late = now > since + patience
        self._alone = (now, min(2 * patience, LONGEST_ALONE)) if late else (since, patience)
        if late:
            self._reconnect()
        return late

    def _reconnect(self) -> None:
        self.close()
        self._connect()

    def _connect(self) -> None:
        self._mailbox = mailbox = Mailbox(self._peers)
        self.ways: dict[str, frozenset[tuple[int, str]]] = {}
        """Over which carriers, and in which roles, each present peer is present."""
        self._ask_again_at: dict[tuple[str, str], float] = {}
        """When a request (peer, topic) may be sent again."""
        self._tries: dict[str, tuple[str, int]] = {}
        """The topic of which each peer was asked last, and how often before, one time after another."""
        tls = self._network.tls
        self._expires = read_certificate(tls.certificate).ends if tls and self._network.needs_certificate else None
        roles = ROLES if self._role == "check" else (self._role,)
        self._carriers = open_carriers(
            self._network,
            self._federation,
            self._me,
            self._role,
            self._outbox.answer,
            dict.fromkeys(self._peers, roles),
            mailbox.presence,
            self._sealer,
            self._outbox,
        )

    @property
    def alive(self) -> set[str]:
        """Peers that are present."""
        return set(self.ways)

    @property
    def dropped(self) -> dict[str, int]:
        """Events of each peer that were dropped because they were too many."""
        return self._mailbox.dropped

    def publish(self, topic: str, number: int) -> None:
        """Makes what the outbox now has on a topic available to peers."""
        for carrier in self._carriers:
            carrier.publish(topic, number)

    def ask(self, peer: str, topic: str, number: int) -> None:
        """Sends a request to a peer in round `number`, unless the same one is under way or has just ended.

        Topics are status, federation (the fields of its file), finished (this site has; has the peer?), round/N (its
        frame) and receipts/N (of what it heard in that round). Only the first answer counts that the peer sealed for
        this site and this request; without one, the reason why the last one was not accepted.
        """
        if time.monotonic() < self._ask_again_at.get((peer, topic), 0):
            return
        self._ask_again_at[peer, topic] = inf
        name, _, of = topic.partition("/")
        ways = sorted(self.ways.get(peer, ())) or [(0, self._role)]
        if name == "finished":
            ways = [way for way in ways if way[1] == self._role] or ways
        elif any(role == "agent" for _, role in ways):
            ways = [way for way in ways if way[1] == "agent"]
        before, tries = self._tries.get(peer, ("", 0))
        tries = tries + 1 if before == topic else 0
        self._tries[peer] = topic, tries
        carrier, role = ways[tries % len(ways)]
        asks, mailbox, sealer = self._carriers[carrier].asks, self._mailbox, self._sealer
        nonce = secrets.token_bytes(NONCE) if asks else bytes(NONCE)
        question = sealer.seal(Kind.QUESTION, nonce + name.encode(), [peer], int(of or 0)) if asks else b""
        left, problem = UNREADABLE, InvalidInput("")

        def answered(data: bytes | None) -> bool:
            nonlocal left, problem
            if data is None:
                if -1 < left < UNREADABLE:
                    mailbox.answer(Event("reply", peer, number, (topic, nonce, problem)))
                mailbox.ended(Event("ended", peer, number, topic))
            elif left > 0:
                left -= 1
                try:
                    message = sealer.open(data, *KINDS[name])
                    if message.sender != peer:
                        raise InvalidInput(f"a message of {message.sender}")
                    if message.kind == Kind.STATUS and message.data[-NONCE:] != nonce:
                        raise InvalidInput("an old status")
                    if message.kind in (Kind.FRAME, Kind.RECEIPTS) and message.round != int(of):
                        raise InvalidInput(f"a message of round {message.round}")
                except InvalidInput as error:
                    problem = error
                    return left == 0
                left = -1
                mailbox.answer(Event("reply", peer, number, (topic, nonce, message)))
            return left <= 0

        waits = ANSWER
        if name == "round":
            waits = 2 * self._federation.deadline
            waits = waits if len(ways) == 1 else max(ANSWER, waits / 8)
        self._carriers[carrier].fetch(peer, role, name, int(of or 0), question, waits, answered)

    def next_event(self, seconds: float) -> Event | None:
        """The next event; None if there is none within `seconds`."""
        self._check_certificate()
        event = self._mailbox.next(seconds)
        if event is None:
            return None
        now = time.monotonic()
        if event.kind in ("here", "gone"):
            self._ask_again_at = {key: when for key, when in self._ask_again_at.items() if key[0] != event.peer}
            self.ways.pop(event.peer, None)
            if event.peer in self._outbox.blocked:
                return None  # nobody asks it, and where it is goes into no log
            if event.kind == "here":
                self.ways[event.peer] = event.content
        elif event.kind == "ended":
            self._ask_again_at = {key: when for key, when in self._ask_again_at.items() if when > now}
            topic, tries = self._tries.get(event.peer, ("", 0))
            pause = min(PAUSE, FIRST_PAUSE * 2 ** min(tries, 9)) if topic == event.content else PAUSE
            self._ask_again_at[event.peer, event.content] = now + pause
            return None
        return event

    def close(self) -> None:
        """Ends all carriers."""
        self._outbox.clear()
        for carrier in self._carriers:
            carrier.close()

    def _check_certificate(self) -> None:
        """When this site's certificate has expired, opens a new session with the one now in the file, or fails."""
        now, tls = datetime.now(UTC), self._network.tls
        if tls and self._expires and now > self._expires:
            problem = read_certificate(tls.certificate).problem(now)
            if problem:
                raise ConsilienceError(
                    f"the certificate {tls.certificate} {problem}. "
                    "Get a new one from your CA; then the same command goes on from the last round."
                )
            self._reconnect()
