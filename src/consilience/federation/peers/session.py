"""Requests to peers, and which of them are present. Zenoh's threads fill a mailbox; the loop's thread empties it."""

import secrets
import time
from collections.abc import Collection
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import Any, final

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.connection_limiter import ConnectionLimiter
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.frame import NONCE, Format
from consilience.federation.peers.keys import read_certificate
from consilience.federation.peers.mailbox import Event, Mailbox
from consilience.federation.peers.outbox import Outbox
from consilience.federation.peers.untrusted_input import LARGEST_FIELDS
from consilience.federation.peers.zenoh_config import (
    ROLES,
    Tls,
    key_of,
    open_behind_limiter,
    open_session,
    token_of,
    zenoh_module,
)

PAUSE = 1.0
"""Seconds before a request is repeated that brought no useful answer."""
ANSWER = 5.0
"""Seconds within which a request is answered that does not wait for a round."""
ALONE, LONGEST_ALONE = 30.0, 240.0
"""Seconds with too few peers after which a site reconnects; they double each time, up to the second number.

The first is three times Zenoh's lease, within which both ends should give up a dead link.
"""
SHORT = 4096
"""Bytes of an answer that should be a status; the rest is cut off."""


@final
class Session:
    """One agent's session. It answers from the outbox, asks peers, and watches which of them are present.

    For an agent, a peer is present while its agent runs; for a check, also while its check runs.
    """

    def __init__(
        self, federation: Federation, me: str, tls: Tls, listen: str, outbox: Outbox, blocked: Collection[str] = ()
    ) -> None:
        self._federation, self._me, self._tls, self._listen, self._outbox = federation, me, tls, listen, outbox
        self._peers = [name for name in federation.names if name != me]
        self._role = outbox.role
        self._sizes = {"status": SHORT, "finished": SHORT, "federation": LARGEST_FIELDS + 1}
        self._blocked = set(blocked)
        self._alone: tuple[float, float] | None = None
        """Since when too few peers are present, and after how many seconds this site reconnects."""
        self._connect()

    def block(self, peers: set[str]) -> None:
        """Stops accepting these peers' certificates, in a new session."""
        if not peers <= self._blocked:
            self._blocked |= peers
            self._reconnect()

    def reconnect_if_isolated(self, enough: int) -> bool:
        """Opens a new session if fewer than `enough` peers have been present for long; returns whether it did.

        A peer that believes a session's dead link to be alive refuses another link of that session for ever, but
        accepts one of a new session, which has another identity.
        """
        now = time.monotonic()
        if len(self.roles) >= enough:
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
        self._expires = read_certificate(self._tls.certificate).ends
        self._frame = Format(self._federation).length
        largest = 2 * self._frame + LARGEST_FIELDS
        self._limiter = limiter = (
            ConnectionLimiter(self._listen, [m.host for m in self._federation.roster]) if self._listen else None
        )
        if limiter:
            self._zenoh = open_behind_limiter(limiter, self._federation, self._me, self._tls, largest, self._blocked)
        else:
            self._zenoh = open_session(self._federation, self._me, self._tls, "", largest, self._blocked)
        self._mailbox = mailbox = Mailbox(self._peers)
        self.roles: dict[str, frozenset[str]] = {}
        """The roles in which each present peer is present."""
        self._ask_again_at: dict[tuple[str, str], float] = {}
        """When a request (peer, topic) may be sent again."""
        if limiter:
            limiter.start()
        liveliness = self._zenoh.liveliness()
        put = zenoh_module().SampleKind.PUT
        self._declared = [
            self._zenoh.declare_queryable(key_of(self._me, "*", f"{self._role}/**"), self._outbox.answer),
            liveliness.declare_token(token_of(self._me, self._role)),
        ]
        for peer in self._peers:
            for role in ROLES if self._role == "check" else (self._role,):

                def changed(sample: Any, peer: str = peer, role: str = role) -> None:
                    mailbox.presence(peer, role, sample.kind == put)

                self._declared.append(liveliness.declare_subscriber(token_of(peer, role), changed, history=True))

    @property
    def alive(self) -> set[str]:
        """Peers that are present."""
        return set(self.roles)

    @property
    def dropped(self) -> dict[str, int]:
        """Events of each peer that were dropped because they were too many."""
        return self._mailbox.dropped

    def ask(self, peer: str, topic: str, number: int) -> None:
        """Sends a request to a peer in round `number`, unless the same one is under way or has just ended.

        Topics are status, federation (the fields of its file), finished (this site has; has the peer?), round/N (its
        frame) and receipts/N (of what it heard in that round). Only the first answer counts.
        """
        if time.monotonic() < self._ask_again_at.get((peer, topic), 0):
            return
        self._ask_again_at[peer, topic] = inf
        zenoh, mailbox = zenoh_module(), self._mailbox
        nonce = secrets.token_bytes(NONCE)
        agent_answers = topic != "finished" and "agent" in self.roles.get(peer, ())
        role = "agent" if agent_answers else self._role
        most = self._sizes.get(topic, self._frame + 1)
        answered = False

        def on_answer(answer: Any) -> None:
            nonlocal answered
            if not answered and (answer.ok is not None or answer.err.payload.to_bytes() != b"Timeout"):
                answered = True
                content = topic, nonce, answer.result.payload.to_bytes()[:most]
                mailbox.answer(Event("error" if answer.ok is None else "reply", peer, number, content))

        def ended() -> None:
            mailbox.ended(Event("ended", peer, number, topic))

        self._zenoh.get(
            f"{key_of(peer, self._me, f'{role}/{topic}')}?nonce={nonce.hex()}",
            zenoh.handlers.Callback(on_answer, ended, indirect=False),
            timeout=2 * self._federation.deadline if topic.startswith("round") else ANSWER,
            consolidation=zenoh.ConsolidationMode.NONE,
            congestion_control=zenoh.CongestionControl.BLOCK,
        )

    def next_event(self, seconds: float) -> Event | None:
        """The next event; None if there is none within `seconds`."""
        self._check_certificate()
        event = self._mailbox.next(seconds)
        if event is None:
            return None
        now = time.monotonic()
        if event.kind in ("here", "gone"):
            self._ask_again_at = {key: when for key, when in self._ask_again_at.items() if key[0] != event.peer}
            self.roles.pop(event.peer, None)
            if event.kind == "here":
                self.roles[event.peer] = event.content
        elif event.kind == "ended":
            self._ask_again_at = {key: when for key, when in self._ask_again_at.items() if when > now}
            self._ask_again_at[event.peer, event.content] = now + PAUSE
            return None
        return event

    def close(self) -> None:
        """Closes the session. Dead links are given up."""
        self._outbox.clear()
        if self._limiter:
            self._limiter.close()
        with suppress(zenoh_module().ZError):
            self._zenoh.close()  # type: ignore[no-untyped-call]

    def _check_certificate(self) -> None:
        """When this site's certificate has expired, opens a new session with the one now in the file, or fails."""
        now = datetime.now(UTC)
        if now > self._expires:
            problem = read_certificate(self._tls.certificate).problem(now)
            if problem:
                raise ConsilienceError(
                    f"the certificate {self._tls.certificate} {problem}. "
                    "Get a new one from your CA; then the same command goes on from the last round."
                )
            self._reconnect()
