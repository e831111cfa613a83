"""Connections of strangers, idle or broken, starve no member."""

import pytest

from tests.federation.conftest import STRANGER, addresses_of


@pytest.mark.faults
def test_idle_connections_of_strangers_stop_no_site(federate):
    trial = federate(4, rounds=12, deadline=6.0)
    trial.files = (1024, 20_000)
    first, *others = trial.names
    for name in trial.names:
        trial.hold(name, "train", "0.5")
    trial.start()
    for name in trial.names:
        trial.until_event(name, "round", round=2)
    trial.sites["stranger"] = trial.folder / "stranger"
    trial.start_script("stranger", STRANGER, "idle", "1300", *addresses_of(trial, [first, *others]))
    trial.until(lambda: "holding" in trial.output("stranger"), "the connections of the stranger")
    trial.kill(first)
    trial.start(first)
    trial.finish(first, *others)
    trial.check(*others, rounds=12)
    assert any(first not in event["absent"] for event in trial.events(others[0], "round")[-3:]), "it never came back"


@pytest.mark.faults
def test_broken_handshakes_starve_no_member(federate):
    trial = federate(4, rounds=10, deadline=6.0)
    names = trial.names
    for name in names:
        trial.hold(name, "train", "0.3")
    trial.start()
    trial.until_event(names[0], "round", round=2)
    trial.sites["stranger"] = trial.folder / "stranger"
    trial.start_script("stranger", STRANGER, "broken", "350", *addresses_of(trial, names))
    trial.until(lambda: "breaking" in trial.output("stranger"), "the handshakes of the stranger")
    trial.kill(names[0])
    trial.start(names[0])
    trial.finish(*names)
    trial.check(*names[1:], rounds=10)
