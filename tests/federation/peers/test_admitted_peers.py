"""A revoked member is not admitted again, whatever is restarted."""

import pytest

from consilience.base.files import write_atomically
from consilience.federation.peers.change import Change, apply_changes
from consilience.federation.peers.keys import read_signing_key
from consilience.federation.peers.untrusted_input import read_federation
from tests.federation.conftest import give, signed


@pytest.mark.faults
def test_a_revoked_member_is_refused_at_once_and_gone_in_the_next_epoch(federate):
    trial = federate(4, rounds=12, deadline=3.0)
    revoked, *others = trial.names
    for name in trial.names:
        trial.hold(name, "train", "0.6")
    trial.start()
    trial.until_event(others[0], "round", round=2)
    file = trial.folder / "federation.toml"
    agreed = read_federation(file)
    change = Change(agreed.identity().hex(), (revoked,), (), {})
    for count, name in enumerate(others, 1):
        key = read_signing_key(trial.sites[name].parent / "keys" / "signing.key")
        change = change.with_signature(agreed, name, key)
        for site in others:
            write_atomically(trial.sites[site].parent / "change.toml", change.to_toml().encode())
        if count == 2:
            for site in others:
                trial.until_event(site, "refused", agent="")
    for name in others:
        trial.until_event(name, "revoked", agent=revoked, by=others)
    trial.finish(*others)
    trial.check(*others, rounds=12)
    for name in others:
        log = trial.events(name)
        after = log[next(place for place, event in enumerate(log) if event["event"] == "revoked") :]
        assert all(revoked not in event["heard"] for event in after if event["event"] == "round")
        assert not [event for event in after if event["event"] == "here" and event["agent"] == revoked]
    assert apply_changes([change], agreed).names == tuple(others)
    assert apply_changes([change], agreed).epoch == 2


@pytest.mark.faults
@pytest.mark.minutes
def test_a_second_revocation_and_restarts_readmit_nobody(federate):
    """Of six, a quorum of which is four; the second change takes the place of the first one beside site.toml."""
    trial = federate(6, rounds=14, deadline=3.0)
    first, second, *others = trial.names
    for name in trial.names:
        trial.hold(name, "train", "0.6")
    trial.start()
    trial.until_event(others[0], "round", round=2)
    for revoked in (first, second):
        give(trial, signed(trial, revoked, others), others)
        for name in others:
            trial.until_event(name, "revoked", agent=revoked, by=others)
    for name in others[:2]:
        trial.kill(name)
        trial.start(name)
    trial.finish(*others)
    for name in others:
        log = trial.events(name)
        for revoked in (first, second):
            start = next(
                index for index, event in enumerate(log) if event["event"] == "revoked" and event["agent"] == revoked
            )
            assert all(revoked not in event["heard"] for event in log[start:] if event["event"] == "round")
            assert not any(event["event"] == "here" and event["agent"] == revoked for event in log[start + 1 :]), name
