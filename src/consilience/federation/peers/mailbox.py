"""Bounded queue between the carriers' threads and the main loop, of peers' answers and changes of their presence."""

import time
from collections import deque
from collections.abc import Iterable
from threading import Condition
from typing import Any, NamedTuple, final

ANSWERS = 64
"""Answers of a peer that wait; more are dropped. A site asks each peer a few things at a time."""
CHANGES, PAUSE = 20, 10.0
"""Changes of a peer's presence that are noted at once, and seconds between two of them after that."""


class Event(NamedTuple):
    """A peer is here or gone, an answer has come (topic, nonce, message), or a request has ended (topic)."""

    kind: str
    peer: str
    round: int = 0
    content: Any = None


@final
class Mailbox:
    """Keeps the last presence of each peer, and a bounded number of its answers."""

    def __init__(self, peers: Iterable[str]) -> None:
        self._filled = Condition()
        self._answers: dict[str, deque[Event]] = {peer: deque() for peer in peers}
        self._ended: deque[Event] = deque()
        """One for each request of this site."""
        self._here: dict[str, set[tuple[int, str]]] = {peer: set() for peer in self._answers}
        """Over which carriers, and in which roles, each peer is present."""
        self._changed: dict[str, None] = {}
        self._credit = {peer: (float(CHANGES), time.monotonic()) for peer in self._answers}
        self.dropped = dict.fromkeys(self._answers, 0)
        """Answers and changes of each peer that were dropped."""

    def presence(self, carrier: int, peer: str, role: str, here: bool) -> None:
        """A peer's process in a role came or went."""
        with self._filled:
            (self._here[peer].add if here else self._here[peer].discard)((carrier, role))
            self.dropped[peer] += peer in self._changed
            self._changed[peer] = None
            self._filled.notify()

    def answer(self, event: Event) -> None:
        """A peer's answer."""
        with self._filled:
            if len(self._answers[event.peer]) < ANSWERS:
                self._answers[event.peer].append(event)
            else:
                self.dropped[event.peer] += 1
            self._filled.notify()

    def ended(self, event: Event) -> None:
        """A request of this site has ended."""
        with self._filled:
            self._ended.append(event)
            self._filled.notify()

    def next(self, seconds: float) -> Event | None:
        """The next event, peers in turn; None if there is none within `seconds`."""
        end = time.monotonic() + seconds
        with self._filled:
            while True:
                event = self._next(time.monotonic())
                left = end - time.monotonic()
                if event is not None or left <= 0:
                    return event
                self._filled.wait(min(left, 0.5))

    def _next(self, now: float) -> Event | None:
        for peer in self._changed:
            before, since = self._credit[peer]
            credit = min(float(CHANGES), before + (now - since) / PAUSE)
            if credit >= 1:
                self._credit[peer] = credit - 1, now
                del self._changed[peer]
                ways = frozenset(self._here[peer])
                return Event("here" if ways else "gone", peer, content=ways)
        for peer, waiting in self._answers.items():
            if waiting:
                self._answers[peer] = self._answers.pop(peer)
                return waiting.popleft()
        return self._ended.popleft() if self._ended else None
