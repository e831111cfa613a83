"""When a round closes, and when it is left for a later one."""

import pytest

from consilience.federation.peers.open_round import OpenRound
from consilience.federation.peers.untrusted_input import frame_from
from tests.federation.peers.test_site_exchange import FORMAT, NAMES, frame

pytest.importorskip("zenoh", reason="needs consilience[peers]")


def open_round(number: int = 4, behind: bool = False, **answered: int) -> OpenRound:
    """A round that needs two peers, with a frame (0) or a later round from those named."""
    found = OpenRound(number, needed=2, claims=2, deadline=10.0, behind=behind)
    for name, later in answered.items():
        if later:
            found.peer_is_ahead(name, later)
        else:
            found.frames[name] = frame_from(FORMAT, frame(name, number), NAMES.index(name))
    return found


def test_a_round_closes_with_all_who_are_present_and_at_the_deadline_with_a_quorum() -> None:
    before, after = 9.0, 11.0
    assert not open_round(b=0).can_close(set(), after), "below the quorum"
    assert open_round(b=0, c=0).waiting({"b", "c", "d"}) == {"d"}
    assert not open_round(b=0, c=0).can_close({"d"}, before), "somebody may still answer"
    assert open_round(b=0, c=0).can_close({"d"}, after)
    assert open_round(b=0, c=0).can_close(set(), before)


@pytest.mark.parametrize(
    ("answered", "waiting", "now", "behind", "later"),
    [
        ({}, set(), 11.0, True, 0),
        ({"b": 6}, set(), 9.0, False, 0),  # one alone leads nobody away before the deadline
        ({"b": 6}, {"c"}, 11.0, False, 0),  # nor while somebody may still answer
        ({"b": 6}, set(), 11.0, True, 0),  # nor afterwards: it may be a liar
        ({"b": 6, "c": 6}, set(), 11.0, False, 6),
        ({"b": 6, "c": 8}, {"d"}, 9.0, False, 6),  # a quorum has reached round 6
        ({"b": 6, "c": 8, "d": 8}, set(), 9.0, False, 8),
        ({"b": 3}, set(), 11.0, True, 0),  # who is behind leads nowhere
        ({"b": 0, "c": 6}, set(), 11.0, False, 0),
        ({"b": 5, "c": 9, "d": 9}, set(), 9.0, False, 9),
        ({"b": 5, "c": 9}, set(), 9.0, False, 5),  # as far as two are
    ],
)
def test_a_round_is_left_when_a_quorum_is_further_or_none_can_come(
    answered: dict[str, int], waiting: set[str], now: float, behind: bool, later: int
) -> None:
    assert open_round(behind=behind, **answered).later_round(waiting, now) == later


def test_a_silent_peer_holds_nobody_in_a_round_that_enough_have_left() -> None:
    found = OpenRound(4, needed=4, claims=2, deadline=10.0)
    found.frames["b"] = frame_from(FORMAT, frame("b", 4), NAMES.index("b"))
    found.peer_is_ahead("c", 7)
    found.peer_is_ahead("d", 9)
    assert found.later_round({"e"}, 9.0) == 0, "before the deadline it may still answer"
    assert found.later_round({"e"}, 11.0) == 7
    assert not found.can_close({"e"}, 11.0)
