"""A peer cannot fill what the loop reads from: of its comings and goings the last is kept, of its answers some."""

from datetime import datetime

import pytest

from consilience.federation.peers import mailbox
from consilience.federation.peers.mailbox import ANSWERS, CHANGES, PAUSE, Event, Mailbox
from tests.federation.conftest import ROGUE


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
        box.presence(0, "a", "agent", turn % 2 == 0)
    assert box.next(0) == Event("here", "a", content=frozenset({(0, "agent")}))
    assert box.next(0) is None
    assert box.dropped == {"a": 100_000, "b": 0}


def test_who_comes_and_goes_for_long_is_noted_once_in_a_while(clock):
    """Each change is taken at once, so that none stands for several: 20 are told of, then one in ten seconds."""
    box, told = Mailbox(["a", "b"]), 0
    for turn in range(10_000):  # a hundred a second
        clock.now += 0.01
        box.presence(0, "a", "agent", turn % 2 == 0)
        told += box.next(0) is not None
    assert CHANGES <= told <= CHANGES + 100 / PAUSE
    box.presence(0, "b", "agent", True)
    assert box.next(0) == Event("here", "b", content=frozenset({(0, "agent")})), "another peer's change is told at once"


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


@pytest.mark.faults
@pytest.mark.minutes
def test_a_member_that_comes_and_goes_fills_neither_queue_nor_log(federate):
    """While the others wait for somebody, and so take note of everything at once."""
    trial = federate(4, rounds=5)
    rogue, held, *others = trial.names
    trial.hold(held, "train-3")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "good", "silent", "flap:20000")
    trial.start(held, *others)
    trial.until_held(held, "train-3")
    for name in others:
        trial.until_event(name, "sent", round=4)
    (trial.sites[rogue].parent / "go").touch()
    trial.until(lambda: "flapped" in trial.output(rogue), "the end of the flapping")
    trial.release(held, "train-3")
    trial.finish(held, *others)
    trial.check(held, *others, rounds=5)
    for name in (held, *others):
        of_rogue = [event for event in trial.events(name) if event.get("agent") == rogue]
        changes = [event for event in of_rogue if event["event"] in ("here", "gone")]
        first, last = (datetime.fromisoformat(event["time"]).timestamp() for event in (changes[0], changes[-1]))
        assert len(changes) < 25 + (last - first) / 10, len(changes)
