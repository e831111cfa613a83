"""Frames: what is signed, what is rejected and why."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from consilience.federation.peers.frame import Format
from consilience.federation.peers.untrusted_input import InvalidInput, frame_from, status_from
from tests.federation.conftest import ROGUE
from tests.federation.peers.conftest import SIGNING, F
from tests.federation.rogue import mutated


def test_a_frame_brings_back_the_predictions_and_who_signed_what(federation):
    format = Format(federation)
    before = frame_from(format, format.make(SIGNING[2], 2, 4, 7, {}, F)[1], 2, 4)
    data = format.make(SIGNING[1], 1, 5, 8, {2: before.receipt}, F)[1]
    assert len(data) == format.length
    frame = frame_from(format, data, 1, 5)
    np.testing.assert_array_equal(frame.predictions, F)
    assert frame.others == (before.receipt,) and format.is_genuine(frame.others[0])
    assert (frame.receipt.agent, frame.receipt.round, frame.receipt.sequence) == (1, 5, 8)


@pytest.mark.parametrize("form", ["float32", "float16", "top-k", "label"])
def test_a_site_has_its_own_frame_as_its_peers_read_it(federation, form):
    settings = federation.settings | {"method": {"lam": 0.5, "wire": {"form": form, "top": 1}}}
    format = Format(replace(federation, settings=settings))
    f = np.random.default_rng(0).dirichlet((1, 1), 6).astype(np.float32)
    heard = format.make(SIGNING[2], 2, 4, 7, {}, f)[0].receipt
    frame, data = format.make(SIGNING[1], 1, 5, 8, {2: heard}, f)
    read = frame_from(format, data, 1, 5)
    assert (frame.receipt, frame.others) == (read.receipt, read.others)
    assert frame.predictions.dtype == np.float32 and frame.predictions.tobytes() == read.predictions.tobytes()


def test_a_frame_is_rejected_with_the_reason(federation):
    format, other = Format(federation), Format(replace(federation, id="2"))
    good = format.make(SIGNING[1], 1, 5, 8, {}, F)[1]
    bent = F.copy()
    bent[3] = 0.7
    wrong = {
        "bytes instead of": good[:-1],
        "wrong magic": b"X" + good[1:],
        r"wrong version \(7 instead of 4\)": good[:4] + b"\7" + good[5:],
        "wrong run": other.make(SIGNING[1], 1, 5, 8, {}, F)[1],
        r"wrong agent \(2 instead of 1\)": format.make(SIGNING[2], 2, 5, 8, {}, F)[1],
        r"wrong round \(4 instead of 5\)": format.make(SIGNING[1], 1, 4, 8, {}, F)[1],
        "not signed by b": format.make(SIGNING[2], 1, 5, 8, {}, F)[1],
        "1 of 6 rows are not probabilities": format.make(SIGNING[1], 1, 5, 8, {}, bent)[1],
        "6 of 6 rows are not finite": format.make(SIGNING[1], 1, 5, 8, {}, F * np.nan)[1],
    }
    for reason, data in wrong.items():
        with pytest.raises(InvalidInput, match=reason):
            frame_from(format, data, 1, 5)


def test_a_status_answers_one_request_only(federation):
    format = Format(federation)
    data = format.pack_status(99.5, b"n" * 16)
    status = status_from(format, data, format.run, 5, b"n" * 16)
    assert (status.round, status.clock, status.same_run, status.same_shared) == (5, 99.5, True, True)
    for nonce, number, given in ((b"m" * 16, 5, data), (b"n" * 16, 10, data), (b"n" * 16, 5, data[:-1])):
        with pytest.raises(InvalidInput):
            status_from(format, given, format.run, number, nonce)
    assert not status_from(format, data, bytes(32), 5, b"n" * 16).same_run


def test_twenty_thousand_damaged_frames_are_rejected_without_growth_of_memory(federation):
    format, draw = Format(federation), np.random.default_rng(0)
    good = format.make(SIGNING[1], 1, 5, 8, {}, F)[1]

    def reject(count: int) -> None:
        for _ in range(count):
            try:
                frame_from(format, mutated(good, draw), 1, 5)
            except InvalidInput:
                continue
            raise AssertionError("a damaged frame was accepted")

    reject(500)
    tracemalloc.start()
    reject(500)
    before, _ = tracemalloc.get_traced_memory()
    reject(5000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 20_000
    reject(14_000)


REASONS = {
    "random": "wrong magic",
    "empty": "0 bytes instead of",
    "truncated": "bytes instead of",
    "long": "bytes instead of",
    "shape": "wrong shape",
    "nan": "not finite",
    "unnormalised": "not probabilities",
    "negative": "not probabilities",
    "changed": "not signed by",
    "stale": "wrong round",
    "replayed": "wrong agent",
    "run": "wrong run",
    "good": "",
    "sequence": "is not above",
    "duplicate": "",
}
"""What a rogue sends in a round, in this order from round 2 on, and the reason for which it is rejected."""


@pytest.mark.faults
def test_frames_that_break_the_rules_are_rejected_with_the_reason(federate):
    last = 1 + len(REASONS)
    trial = federate(4, rounds=last)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), *REASONS)
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=last)
    for name in others:
        rejected = {event["round"]: event["reason"] for event in trial.events(name, "rejected")}
        closed = {event["round"]: event for event in trial.events(name, "round")}
        for number, (mode, reason) in enumerate(REASONS.items(), 2):
            assert (rogue in closed[number]["heard"]) == (not reason), (mode, closed[number])
            assert (reason in rejected[number]) if reason else number not in rejected, (mode, rejected)


@pytest.mark.faults
def test_a_message_larger_than_any_frame_stops_nobody(federate):
    trial = federate(4, rounds=5)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "huge", "good")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=5)
    for name in others:
        assert rogue in trial.events(name, "round")[1]["absent"]


@pytest.mark.faults
def test_random_frames_over_a_real_link(federate):
    """Three sites, eighty rounds: some hundred damaged frames, none accepted."""
    trial = federate(4, rounds=81)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "fuzz")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=81)
    rejected = [event for name in others for event in trial.events(name, "rejected")]
    assert len(rejected) > 200
    assert all(rogue in event["absent"] for name in others for event in trial.events(name, "round"))
