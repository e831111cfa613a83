"""A peer cannot fill what the loop reads from: of its comings and goings the last is kept, of its answers some."""

import pytest

from consilience.federation.peers import mailbox
from consilience.federation.peers.mailbox import ANSWERS, CHANGES, PAUSE, Event, Mailbox


@pytest.fixture
def clock(monkeypatch):
    """A clock that only goes on when it is told to."""

    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    found = Clock()
    monkeypatch.setattr(mailbox, "time", found)
    return found


def test_of_many_changes_at_once_only_the_last_is_told(clock):
    box = Mailbox(["a", "b"])
    for turn in range(100_001):
        box.presence("a", "agent", turn % 2 == 0)
    assert box.next(0) == Event("here", "a", content=frozenset({"agent"}))
    assert box.next(0) is None
    assert box.dropped == {"a": 100_000, "b": 0}


def test_who_comes_and_goes_for_long_is_noted_once_in_a_while(clock):
    """Each change is taken at once, so that none stands for several: 20 are told of, then one in ten seconds."""
    box, told = Mailbox(["a", "b"]), 0
    for turn in range(10_000):  # a hundred a second
        clock.now += 0.01
        box.presence("a", "agent", turn % 2 == 0)
        told += box.next(0) is not None
    assert CHANGES <= told <= CHANGES + 100 / PAUSE
    box.presence("b", "agent", True)
    assert box.next(0) == Event("here", "b", content=frozenset({"agent"})), "another peer's change is told at once"


def test_answers_that_nobody_takes_are_dropped_and_those_of_others_are_not(clock):
    box = Mailbox(["a", "b"])
    for number in range(10 * ANSWERS):
        box.answer(Event("reply", "a", number))
    box.answer(Event("reply", "b", 1))
    taken = []
    while event := box.next(0):
        taken.append(event)
    assert len(taken) == ANSWERS + 1
    assert taken[1].peer == "b", "peers take turns"
    assert box.dropped == {"a": 9 * ANSWERS, "b": 0}
