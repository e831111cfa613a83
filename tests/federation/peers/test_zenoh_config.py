"""Who may connect to a site: certificates and addresses."""

import tomllib

import pytest

from consilience.federation.peers import keys
from tests.federation.conftest import ROGUE


@pytest.mark.faults
def test_options_behind_the_address_of_a_member_reach_no_session(federate):
    """With another authority in an address of its own a member spoke under the name of a peer."""
    trial = federate(4)
    file = trial.folder / "federation.toml"
    text = file.read_text()
    address = tomllib.loads(text)["roster"][0]["address"]
    file.write_text(text.replace(f'"{address}"', f'"{address}#root_ca_certificate_base64=QQ=="'))
    trial.start()
    for name in trial.names:
        assert trial.code(name) == 2
        assert "host:port" in trial.output(name) and "Traceback" not in trial.output(name)
        assert not (trial.sites[name].parent / "run").exists(), "nothing was begun"


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["foreign authority", "expired", "another member", "outsider"])
def test_who_has_the_wrong_certificate_or_the_wrong_keys_is_not_heard(federate, kind):
    """Who has no certificate of the CA has no link; who has one, and not the keys of the member, says nothing."""
    trial = federate(6, rounds=4, deadline=3.0)
    victim, member, *others = trial.names
    folder, own = trial.folder / "wrong", trial.sites[victim].parent / "keys"
    if kind in ("foreign authority", "expired"):
        authority = trial.folder / ("foreign-ca" if kind == "foreign authority" else "trial-ca")
        if kind == "foreign authority":
            keys.new_authority(authority)
        keys.issue_certificate(authority, folder, victim, "127.0.0.1", 1.0 if kind == "foreign authority" else -1.0)
    elif kind == "another member":
        folder = own = trial.sites[member].parent / "keys"
    else:
        keys.issue_certificate(trial.folder / "trial-ca", folder, "outsider", "127.0.0.1")
        keys.new_signing_key(folder / "signing.key")
        keys.new_encryption_key(folder / "encryption.key")
        own = folder
    trial.start_script(victim, ROGUE, str(trial.sites[victim]), "impostor", str(folder), str(own), victim)
    trial.until(lambda: "asked" in trial.output(victim), "the impostor")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=4)
    for name in others:
        assert all(victim in event["absent"] for event in trial.events(name, "round"))
        if kind in ("foreign authority", "expired"):
            assert not [event for event in trial.events(name, "here") if event["agent"] == victim]
    assert "answered" not in trial.output(victim)


@pytest.mark.faults
def test_the_positive_control_a_member_with_any_certificate_of_the_ca_is_heard(federate):
    """Its keys make it the member, not the certificate of its links."""
    trial = federate(4, rounds=3, deadline=3.0)
    victim, *others = trial.names
    folder, own = trial.folder / "other", trial.sites[victim].parent / "keys"
    keys.issue_certificate(trial.folder / "trial-ca", folder, "gateway", "127.0.0.1")
    trial.start_script(victim, ROGUE, str(trial.sites[victim]), "impostor", str(folder), str(own), victim)
    trial.start(*others)
    trial.finish(*others)
    assert all(any(event["agent"] == victim for event in trial.events(name, "here")) for name in others)
    assert "answered" in trial.output(victim)
