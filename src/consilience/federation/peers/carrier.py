"""The port through which sealed messages travel between sites: publish, fetch, and who is there."""

from collections.abc import Callable
from typing import Protocol

ROLES = ("agent", "check")
"""Kinds of processes of a site that take part in rounds, or look before."""
ANSWERS = "answers"
"""The role of a process that answers questions about samples."""
Answered = Callable[[bytes | None], bool]
"""Is given each answer to a question, and None when no more come; returns whether it has what it needs.

It is called from threads of the carrier.
"""
Reach = Callable[[str, str, bool], None]
"""Is told that a peer's process in a role can be reached, or cannot any more."""


class Query(Protocol):
    """A sealed question to this site."""

    message: bytes

    def reply(self, message: bytes) -> None:
        """Sends an answer."""

    def drop(self) -> None:
        """Ends the answer."""


class Carrier(Protocol):
    """Publish, fetch, and who is there."""

    asks: bool
    """Whether questions reach the peer, so that its status can answer this one question."""

    def publish(self, topic: str, number: int) -> None:
        """Makes what the outbox now has on a topic, in a round, available to peers."""

    def fetch(
        self, peer: str, role: str, topic: str, number: int, question: bytes, seconds: float, answered: Answered
    ) -> None:
        """Gets what a peer's process in a role has on a topic.

        Args:
            peer: The peer.
            role: The role of its process.
            topic: The topic.
            number: The round, for topics that have one.
            question: The same, sealed, for a carrier that passes questions on.
            seconds: How long to wait for it.
            answered: Is given what comes, and None at the end.
        """

    def close(self) -> None:
        """Ends it."""
