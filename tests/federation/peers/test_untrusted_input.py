"""What a peer sends is read strictly: a text made to crash or to delay its reader stops nobody."""

import pytest

from tests.federation.conftest import ROGUE


@pytest.mark.faults
@pytest.mark.parametrize("digits", ["401", "5001", "hex", "markup"])
def test_a_federation_text_made_to_crash_its_reader_stops_nobody(federate, digits):
    trial = federate(4, rounds=4)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), f"text={digits}")
    trial.start(*others)
    trial.finish(*others)
    trial.check(*others, rounds=4)
    for name in others:
        refused = trial.events(name, "refused")
        assert refused and all(event["agent"] == rogue and len(event["reason"]) < 2000 for event in refused)
        assert "\x1b" not in trial.output(name) and "\x07" not in trial.output(name)


@pytest.mark.faults
@pytest.mark.parametrize("kind", ["dots300", "dots998", "dots998new", "fieldsnew"])
def test_a_text_made_to_keep_its_reader_busy_delays_nobody(federate, kind):
    """A header and keys of 500 parts take a parser 95 s, again whenever their sender comes back; with new: each time as
    another file."""
    trial = federate(4, rounds=6)
    rogue, *others = trial.names
    trial.start_script(rogue, ROGUE, str(trial.sites[rogue]), f"text={kind}", "return:1")
    trial.start(*others)
    trial.until(lambda: all(trial.events(name, "finished") for name in others), "the last round", 30)
    trial.finish(*others)
    trial.check(*others, rounds=6)
    for name in others:
        refused = trial.events(name, "refused")
        assert {event["agent"] for event in refused} == {rogue}
        assert len(refused) <= (12 if "new" in kind else 1), "once, however often it returns"
