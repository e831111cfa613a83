"""Requests to peers, and who of them is there. Zenoh's threads fill a queue; the loop's thread takes from it."""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, final

from consilience.errors import ConsilienceError
from consilience.federation.peers.federation import LARGEST_FILE, Federation
from consilience.federation.peers.frame import NONCE, Format
from consilience.federation.peers.keys import read_certificate
from consilience.federation.peers.link import Tls, key_of, open_session, zenoh_module
from consilience.federation.peers.outbox import Outbox

PAUSE = 1.0
"""Seconds before a request whose answer did not help, or did not come, is sent again."""
ANSWER = 5.0
"""Seconds within which a request that waits for no round is answered."""


class Event(NamedTuple):
    """A peer is here or gone, its reply or error has come (topic, nonce, bytes), or a request has ended (topic)."""

    kind: str
    peer: str
    round: int = 0
    content: Any = None


@final
class Session:
    """One agent's session. It answers from the outbox, asks peers, and watches who is there."""

    def __init__(self, federation: Federation, me: str, tls: Tls, listen: str, outbox: Outbox) -> None:
        self._federation, self._me, self._tls, self._listen, self._outbox = federation, me, tls, listen, outbox
        self._peers = [name for name in federation.names if name != me]
        self._queue: SimpleQueue[Event] = SimpleQueue()
        self._join()

    def _join(self) -> None:
        self._expires = read_certificate(self._tls.certificate).ends
        largest = 2 * Format(self._federation).length + LARGEST_FILE
        self._zenoh = open_session(self._federation, self._me, self._tls, self._listen, largest)
        liveliness = self._zenoh.liveliness()
        self._declared = [
            self._zenoh.declare_queryable(key_of(self._me, "**"), self._outbox.answer),
            liveliness.declare_token(key_of(self._me, "alive")),
            *(
                liveliness.declare_subscriber(key_of(peer, "alive"), self._watch(peer), history=True)
                for peer in self._peers
            ),
        ]
        self.alive: set[str] = set()
        """Peers who are there."""
        self._ask_again_at: dict[tuple[str, str], float] = {}
        """When a request (peer, topic) may be sent again."""

    def ask(self, peer: str, topic: str, number: int) -> None:
        """Sends a request to a peer in round `number`, unless it is under way or has just ended.

        Topics are status, federation (its file), finished (this site has; what of the peer?) and round/N (its frame).
        Only the first answer counts.
        """
        if time.monotonic() < self._ask_again_at.get((peer, topic), 0):
            return
        self._ask_again_at[peer, topic] = inf
        zenoh = zenoh_module()
        nonce = secrets.token_bytes(NONCE)
        answered = False

        def on_answer(answer: Any) -> None:
            nonlocal answered
            if not answered and (answer.ok is not None or answer.err.payload.to_bytes() != b"Timeout"):
                answered = True
                content = topic, nonce, answer.result.payload.to_bytes()
                self._queue.put(Event("error" if answer.ok is None else "reply", peer, number, content))

        self._zenoh.get(
            f"{key_of(peer, topic)}?nonce={nonce.hex()};from={self._me}",
            zenoh.handlers.Callback(on_answer, lambda: self._queue.put(Event("ended", peer, number, topic))),
            timeout=2 * self._federation.deadline if topic.startswith("round") else ANSWER,
            consolidation=zenoh.ConsolidationMode.NONE,
            congestion_control=zenoh.CongestionControl.BLOCK,
        )

    def next_event(self, seconds: float) -> Event | None:
        """The next event within so many seconds."""
        self._check_certificate()
        try:
            event = self._queue.get(timeout=seconds)
        except Empty:
            return None
        now = time.monotonic()
        if event.kind in ("here", "gone"):
            self._ask_again_at = {key: when for key, when in self._ask_again_at.items() if key[0] != event.peer}
            (self.alive.add if event.kind == "here" else self.alive.discard)(event.peer)
        elif event.kind == "ended":
            self._ask_again_at = {key: when for key, when in self._ask_again_at.items() if when > now}
            self._ask_again_at[event.peer, event.content] = now + PAUSE
            return None
        return event

    def close(self) -> None:
        """Leaves. A link that is dead is given up."""
        self._outbox.clear()
        with suppress(zenoh_module().ZError):
            self._zenoh.close()  # type: ignore[no-untyped-call]

    def _check_certificate(self) -> None:
        """If this site's certificate has expired: a new session with the one now in the file, or an error."""
        now = datetime.now(UTC)
        if now > self._expires:
            problem = read_certificate(self._tls.certificate).problem(now)
            if problem:
                raise ConsilienceError(
                    f"the certificate {self._tls.certificate} {problem}. "
                    "Get a new one from your CA; then the same command goes on from the last round."
                )
            self.close()
            self._join()

    def _watch(self, peer: str) -> Callable[[Any], None]:
        put = zenoh_module().SampleKind.PUT
        return lambda sample: self._queue.put(Event("here" if sample.kind == put else "gone", peer))
