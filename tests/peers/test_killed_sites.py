"""A site that is killed, stopped or slow: the others finish, and it comes back with the same command."""

import signal

import pytest

pytestmark = pytest.mark.faults
ROUNDS = 6


@pytest.mark.parametrize("phase", ["train-1", "train-3", "checkpoint-3", "train-6", "checkpoint-6"])
def test_a_site_killed_in_a_phase_resumes_and_nothing_is_counted_twice(federate, phase):
    trial = federate(4, rounds=ROUNDS)
    first, *others = trial.names
    trial.hold(first, phase)
    trial.start()
    trial.until_held(first, phase)
    trial.kill(first)
    for name in others:
        trial.until_event(name, "gone", agent=first)
    trial.release(first, phase)
    trial.start(first)
    trial.finish()
    trial.check(*others, rounds=ROUNDS)
    assert [one["event"] for one in trial.events(first) if one["event"] in ("start", "finished")] == [
        "start",
        "start",
        "finished",
    ]
