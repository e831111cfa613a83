"""A member or a stranger who breaks the rules is not heard; the reason is logged, and the others finish."""

import json
from pathlib import Path

import pytest

from consilience.federation.peers import keys
from consilience.federation.peers.frame import RECEIPT, Format, Receipt
from consilience.federation.peers.untrusted_input import read_federation

pytestmark = pytest.mark.faults
ROGUE = Path(__file__).parent / "rogue.py"
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


def test_a_message_larger_than_any_frame_stops_nobody(federate):
    trial = federate(4, rounds=5)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "huge", "good")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=5)
    for name in others:
        assert rogue in trial.events(name, "round")[1]["absent"]


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


@pytest.mark.parametrize("mode", ["garbled", "ahead"])
def test_a_false_status_leads_nobody_astray_and_floods_no_log(federate, mode):
    """One that is no status at all, and one that claims a round far ahead."""
    trial = federate(4, rounds=6, deadline=3.0)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), mode)
    trial.hold(others[0], "train-3", "4")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=6)
    for name in others:
        assert not trial.events(name, "jump")
        assert 1 <= len(trial.events(name, "rejected")) <= 2 + 6


def test_a_flood_of_odd_requests_stops_nobody(federate):
    trial = federate(4, rounds=12)
    rogue, *others = trial.names
    for name in others:
        trial.hold(name, "train", "0.3")
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "flood")
    trial.start(*others)
    for name in others:
        trial.until_event(name, "round", round=2)
    (trial.sites[rogue].parent / "go").touch()
    trial.until(lambda: "flooded" in trial.output(rogue), "the flood")
    trial.finish(*others)
    trial.check(*others, rounds=12)
    for name in others:
        assert trial.events(name, "dropped")[-1]["agent"] == rogue


def test_equivocation_is_detected_proven_and_ends_in_exclusion(federate):
    trial = federate(5, rounds=6)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), "good", "equivocation")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=6)
    federation = read_federation(trial.folder / "federation.toml")
    for name in others:
        absent = [rogue in event["absent"] for event in trial.events(name, "round")]
        assert absent == [False, False, True, True, True], absent
        (excluded,) = trial.events(name, "excluded")
        assert excluded["agent"] == rogue and excluded["round"] == 3
        evidence = json.loads((trial.sites[name].parent / "run" / "evidence" / f"{rogue}.json").read_text())
        assert evidence["run"] == federation.identity().hex()
        receipt, other = (Receipt(0, *RECEIPT.unpack(bytes.fromhex(r["packed"]))) for r in evidence["receipts"])
        assert Format(federation).is_genuine(receipt) and Format(federation).is_genuine(other)
        assert (
            receipt.contradicts(other)
            and receipt.round == other.round == 3
            and receipt.payload_hash != other.payload_hash
        )


@pytest.mark.parametrize("kind", ["foreign authority", "another member", "outsider", "expired"])
def test_who_holds_the_wrong_certificate_is_not_heard(federate, kind):
    trial = federate(6, rounds=4, deadline=3.0)
    victim, member, *others = trial.names
    folder = trial.folder / "wrong"
    host = "127.0.0.1"
    if kind == "another member":
        folder = trial.sites[member].parent / "keys"
    elif kind == "foreign authority":
        keys.new_authority(trial.folder / "foreign-ca")
        keys.issue_certificate(trial.folder / "foreign-ca", folder, victim, host)
    else:
        name, days = ("outsider", 1.0) if kind == "outsider" else (victim, -1.0)
        keys.issue_certificate(trial.folder / "trial-ca", folder, name, host, days)
    site = str(trial.sites[victim])
    asker = member if kind == "another member" else victim
    trial.start_script(victim, ROGUE, site, "impostor", str(folder), victim, asker)
    trial.until(lambda: "asked" in trial.output(victim), "the impostor")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=4)
    for name in others:
        assert not [event for event in trial.events(name, "here") if event["agent"] in (victim, member)]
        assert all(victim in event["absent"] for event in trial.events(name, "round"))
    assert ("answered" in trial.output(victim)) == (kind == "another member")  # who may ask, but not speak for others


def test_the_positive_control_an_impostor_with_the_right_certificate_is_heard(federate):
    trial = federate(4, rounds=3, deadline=3.0)
    victim, *others = trial.names
    folder = trial.sites[victim].parent / "keys"
    trial.start_script(victim, ROGUE, str(trial.sites[victim]), "impostor", str(folder), victim, victim)
    trial.start(*others)
    trial.finish(*others)
    assert all(any(event["agent"] == victim for event in trial.events(name, "here")) for name in others)
    assert "answered" in trial.output(victim)


@pytest.mark.minutes
def test_a_certificate_that_expires_in_a_run_ends_the_site_until_it_is_renewed(federate):
    trial = federate(4, rounds=40, deadline=5.0)
    expiring, *others = trial.names
    for name in others:
        trial.hold(name, "train", "0.6")
    folder = trial.sites[expiring].parent / "keys"
    (folder / "tls.key").unlink()
    keys.issue_certificate(trial.folder / "trial-ca", folder, expiring, "127.0.0.1", days=15 * trial.slow / 86400)
    trial.start()
    for name in others:
        trial.until_event(name, "gone", agent=expiring)
    assert trial.code(expiring) == 2
    assert "expired on" in trial.output(expiring) and "the same command" in trial.output(expiring)
    (folder / "tls.key").unlink()
    keys.issue_certificate(trial.folder / "trial-ca", folder, expiring, "127.0.0.1")
    trial.start(expiring)
    trial.finish()
    trial.check(*others, rounds=40)
    absent = [expiring in event["absent"] for event in trial.events(others[0], "round")]
    assert not absent[0] and any(absent) and not absent[-1]


def test_an_expired_certificate_of_ones_own_is_refused_at_the_start(federate):
    trial = federate(4)
    first = trial.names[0]
    folder = trial.sites[first].parent / "keys"
    (folder / "tls.key").unlink()
    keys.issue_certificate(trial.folder / "trial-ca", folder, first, "127.0.0.1", days=-1)
    trial.start(first)
    assert trial.code(first) == 2
    assert "expired on" in trial.output(first) and "Get a new one" in trial.output(first)
