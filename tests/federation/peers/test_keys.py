"""Private keys and certificates of a site."""

import os
import stat
from datetime import UTC, datetime, timedelta

import pytest

from consilience.base.errors import ConsilienceError
from consilience.federation.peers import keys


def test_private_keys_are_for_their_owner_alone_and_never_overwritten(tmp_path):
    before = os.umask(0)
    try:
        public = keys.new_signing_key(tmp_path / "signing.key")
        keys.new_authority(tmp_path / "ca")
        keys.issue_certificate(tmp_path / "ca", tmp_path, "a", "127.0.0.1")
    finally:
        os.umask(before)
    for path in (tmp_path / "signing.key", tmp_path / "tls.key", tmp_path / "ca" / "ca.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.public_key(keys.read_signing_key(tmp_path / "signing.key")) == public
    with pytest.raises(ConsilienceError, match="never overwritten"):
        keys.new_signing_key(tmp_path / "signing.key")


def test_a_certificate_says_until_when_it_is_valid(tmp_path):
    keys.new_authority(tmp_path / "ca")
    keys.issue_certificate(tmp_path / "ca", tmp_path, "a", "site.example", days=2)
    certificate, now = keys.read_certificate(tmp_path / "tls.crt"), datetime.now(UTC)
    assert certificate.name == "a" and certificate.problem(now) == ""
    assert "expired on" in certificate.problem(now + timedelta(days=3))
    assert "valid only from" in certificate.problem(now - timedelta(days=1))


@pytest.mark.faults
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


@pytest.mark.faults
def test_an_expired_certificate_of_ones_own_is_refused_at_the_start(federate):
    trial = federate(4)
    first = trial.names[0]
    folder = trial.sites[first].parent / "keys"
    (folder / "tls.key").unlink()
    keys.issue_certificate(trial.folder / "trial-ca", folder, first, "127.0.0.1", days=-1)
    trial.start(first)
    assert trial.code(first) == 2
    assert "expired on" in trial.output(first) and "Get a new one" in trial.output(first)


def test_a_certificate_that_is_not_there_says_where_it_comes_from(tmp_path):
    with pytest.raises(ConsilienceError, match=r"there is no certificate .*ca.crt. That of an authority comes from"):
        keys.read_certificate(tmp_path / "ca.crt")
