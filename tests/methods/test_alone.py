"""Everyone alone."""

import numpy as np
import pytest

from consilience import Alone
from consilience.extend import Start
from tests.methods.parrot import NAMES, parrots, rounds_of


class Nobody:
    """An exchange that must not be used."""

    roster = NAMES

    def gather(self, number, own_predictions):
        raise AssertionError("there is nothing to exchange")


def test_agents_train_on_their_own_data_and_say_nothing():
    agents = parrots()
    rounds = rounds_of(Alone(), 3, Nobody(), agents)
    assert [done.number for done in rounds] == [1, 2, 3]
    for done in rounds:
        record = done.record
        assert record.sent == dict.fromkeys(NAMES, 0)
        assert (record.heard, record.received, record.trust) == ((), {}, None)
        assert (done.memory.common, done.memory.own) == ({}, {})
        for place, agent in enumerate(agents):
            np.testing.assert_array_equal(record.predictions[agent.name], agent.says)
            assert record.losses[agent.name].local == pytest.approx(done.number + place / 10)
    assert all(agent.trained == [(0.0, False)] * 3 for agent in agents)


def test_it_goes_on_after_the_rounds_that_are_done():
    assert [done.number for done in rounds_of(Alone(), 5, start=Start(5, 3))] == [4, 5]
