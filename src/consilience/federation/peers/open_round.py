"""A round that is not closed yet: what is known of it, and when it may be closed or must be left."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import final

from consilience.federation.peers.frame import Frame

REJECTED = 3
"""Invalid answers of a peer in a round after which the round may be closed without it."""


@final
@dataclass
class OpenRound:
    """One round as one site sees it. Times are those of `time.monotonic`."""

    number: int
    needed: int
    """Peers that it needs to close: a quorum without this site."""
    claims: int
    """Peers that must claim to be in a later round before this site goes there: one of them is honest."""
    deadline: float
    behind: bool = False
    """Whether this site has already left a round to find its peers."""
    frames: dict[str, Frame] = field(default_factory=dict)
    """Accepted frames, by peer."""
    given_up: set[str] = field(default_factory=set)
    """Peers that will not answer for this round, unless they come back."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Invalid answers of each peer. One may be a middleman's, so the peer is asked again while the round is open."""
    rounds_ahead: dict[str, int] = field(default_factory=dict)
    """Peers that claim to be in a later round, and in which."""

    def unanswered(self, present: Collection[str]) -> set[str]:
        """Those `present` who may still answer."""
        return set(present) - self.frames.keys() - self.given_up

    def waiting(self, present: Collection[str]) -> set[str]:
        """Those of them for whom the round is kept open."""
        return {peer for peer in self.unanswered(present) if self.rejected[peer] < REJECTED}

    def can_close(self, waiting: Collection[str], now: float) -> bool:
        """Whether a quorum has answered, and everyone present has answered or the deadline is over."""
        return len(self.frames) >= self.needed and (now > self.deadline or not waiting)

    def later_round(self, waiting: Collection[str], now: float) -> int:
        """The round to go on in, when this one cannot be closed any more; 0 while it still can.

        It is the latest round that enough peers claim to have reached for one of them to be honest. This round is left
        at once when a quorum is further. With fewer claims it is left when the deadline is over or, by a site that is
        `behind`, when everyone present has answered: so sites that a fault left in different rounds meet again. At the
        deadline, peers that have not answered do not count: a silent member would hold others back.
        """
        ahead = sorted(self.rounds_ahead.values(), reverse=True)
        if len(ahead) < self.claims:
            return 0
        if len(ahead) >= self.needed:
            return ahead[max(self.needed, self.claims) - 1]
        if now > self.deadline or (self.behind and not waiting):
            return ahead[self.claims - 1]
        return 0

    def peer_says(self, peer: str, number: int) -> None:
        """Notes that a peer claims to be in round `number`."""
        if number > self.number:
            self.rounds_ahead[peer] = number

    def peer_is_ahead(self, peer: str, number: int) -> None:
        """Notes that a peer does not answer for this round, because it is in round `number`."""
        self.given_up.add(peer)
        self.peer_says(peer, number)

    def drop(self, excluded: Collection[str]) -> None:
        """Forgets what excluded peers sent."""
        self.frames = {peer: frame for peer, frame in self.frames.items() if peer not in excluded}
