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


@pytest.mark.faults
def test_the_positive_control_an_impostor_with_the_right_certificate_is_heard(federate):
    trial = federate(4, rounds=3, deadline=3.0)
    victim, *others = trial.names
    folder = trial.sites[victim].parent / "keys"
    trial.start_script(victim, ROGUE, str(trial.sites[victim]), "impostor", str(folder), victim, victim)
    trial.start(*others)
    trial.finish(*others)
    assert all(any(event["agent"] == victim for event in trial.events(name, "here")) for name in others)
    assert "answered" in trial.output(victim)
