"""A round that is not closed yet: what is known of it so far, and when it may be closed or must be left."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import final

from consilience.federation.peers.frame import Frame


@final
@dataclass
class OpenRound:
    """One round as one site sees it. Times are those of `time.monotonic`."""

    number: int
    needed: int
    """Peers without whom it is not closed: a quorum without this site."""
    deadline: float
    behind: bool = False
    """Whether this site has left a round already to find its peers."""
    frames: dict[str, Frame] = field(default_factory=dict)
    """What was accepted, by peer."""
    given_up: set[str] = field(default_factory=set)
    """Peers that will not answer for this round, unless they come back."""
    rounds_ahead: dict[str, int] = field(default_factory=dict)
    """Peers that have left this round, and the round in which they are."""

    def waiting(self, present: Collection[str]) -> set[str]:
        """Those `present` who may still answer."""
        return set(present) - self.frames.keys() - self.given_up

    def can_close(self, waiting: Collection[str], now: float) -> bool:
        """With a quorum, when everyone present has answered or the deadline is over."""
        return len(self.frames) >= self.needed and (now > self.deadline or not waiting)

    def later_round(self, waiting: Collection[str], now: float) -> int:
        """The round to go on in, when this one cannot be closed any more; 0 while it still can.

        With a quorum of peers in later rounds, it is the latest round that a quorum has reached. With fewer it is the
        latest in which anybody is, as soon as everyone present has answered, and the deadline is over or this site is
        `behind` already: so sites that a fault left in different rounds meet again.
        """
        ahead = sorted(self.rounds_ahead.values(), reverse=True)
        if len(ahead) >= self.needed:
            return ahead[self.needed - 1]
        if ahead and not waiting and (self.behind or now > self.deadline):
            return ahead[0]
        return 0

    def peer_is_ahead(self, peer: str, number: int) -> None:
        """A peer does not answer for this round, because it is in round `number`."""
        self.given_up.add(peer)
        if number > self.number:
            self.rounds_ahead[peer] = number

    def drop(self, excluded: Collection[str]) -> None:
        """Forgets what excluded peers sent."""
        self.frames = {peer: frame for peer, frame in self.frames.items() if peer not in excluded}
