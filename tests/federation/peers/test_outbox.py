"""What a site publishes: once for a round, to few questions at a time, and in one federation."""

from dataclasses import replace

import numpy as np
import pytest

from consilience.base.errors import ConsilienceError
from consilience.federation.peers.frame import Format
from consilience.federation.peers.outbox import HELD, Outbox
from consilience.federation.peers.untrusted_input import InvalidInput
from tests.federation.conftest import ROGUE
from tests.federation.peers.conftest import SITE_KEYS, F, Query


def test_a_round_is_signed_once_even_after_a_restart(federation, tmp_path):
    first, length = Outbox(federation, "b", SITE_KEYS[1], tmp_path).publish(5, F, {})
    other = np.eye(2, dtype=np.float32)[[0] * 6]
    outbox = Outbox(federation, "b", SITE_KEYS[1], tmp_path)
    assert outbox.round == 5
    again, _ = outbox.publish(5, other, {})
    assert again.receipt == first.receipt and length == Format(federation).length
    later, _ = outbox.publish(6, other, {})
    assert later.receipt.sequence > first.receipt.sequence
    outbox.publish(9, other, {})
    assert sorted(path.stem for path in tmp_path.glob("*.frame")) == ["6", "9"]


def test_few_questions_of_each_peer_wait_for_a_round_and_none_displaces_another(federation, tmp_path):
    outbox = Outbox(federation, "a", SITE_KEYS[0], tmp_path)
    many, single = [Query(federation, "b", "round", 1) for _ in range(500)], Query(federation, "c", "round", 1)
    for query in [*many, single]:
        outbox.answer(query)
    assert outbox.odd == {"": 0, "a": 0, "b": 500 - HELD, "c": 0, "d": 0}
    outbox.publish(1, F, {})
    assert [len(query.replies) for query in many] == [1] * HELD + [0] * (500 - HELD)
    assert len(single.replies) == 1 and single.dropped


def test_what_was_published_in_another_federation_is_not_published_again(federation, tmp_path):
    Outbox(federation, "b", SITE_KEYS[1], tmp_path).publish(5, F, {})
    with pytest.raises(ConsilienceError, match="of another federation"):
        Outbox(replace(federation, id="2"), "b", SITE_KEYS[1], tmp_path)


def test_receipts_with_a_changed_byte_are_not_read_back(federation, tmp_path):
    outbox = Outbox(federation, "a", SITE_KEYS[0], tmp_path)
    receipts = {0: outbox.publish(1, F, {})[0].receipt}
    outbox.keep_receipts(1, receipts)
    outbox.flush()
    assert Outbox(federation, "a", SITE_KEYS[0], tmp_path).kept_receipts() == receipts
    path, again = tmp_path / "receipts", Outbox(federation, "a", SITE_KEYS[0], tmp_path)
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(InvalidInput, match="its checksum is wrong"):
            again.kept_receipts()


@pytest.mark.faults
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
