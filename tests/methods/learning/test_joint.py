"""Private and shared samples in every step."""

import pytest

from consilience import Consensus
from consilience.methods.learning.joint import Joint
from tests.methods.parrot import (
    parrots,
    rounds_of,
)


@pytest.mark.parametrize(("warmup", "asked", "times"), [(0, False, 4), (2, False, 3), (2, True, 4)])
def test_agents_predict_the_shared_data_once_a_round(warmup, asked, times):
    """And once before the first round, if that needs it."""
    agents = parrots()
    rounds_of(Consensus(warmup=warmup, learning=Joint(warmup_shared=asked)), 3, agents=agents)
    assert {agent.predicted for agent in agents} == {times}
