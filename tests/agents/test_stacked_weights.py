"""Weights and gradients of the agents of a batch."""

import numpy as np
import pytest

from tests.agents.test_batched import classifiers, close, corrections
from tests.agents.together import train_all_alone


def test_corrected_gradients_and_their_sums_in_a_batch_equal_the_agents_one_by_one(shared):
    together, alone = classifiers(), classifiers(batched=False)
    for _ in range(2):
        mine, theirs = corrections(together), corrections(alone)
        losses, expected = train_all_alone(together, mine), train_all_alone(alone, theirs)
    for one, two in zip(together, alone, strict=True):
        close(one, two, atol=2e-4)
        assert losses[one.name].local == pytest.approx(expected[one.name].local, rel=1e-3)
        assert losses[one.name].trained == expected[one.name].trained
        for name, total in theirs[one.name].sums.items():
            np.testing.assert_allclose(mine[one.name].sums[name], total, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("way", ["rule of whole tensors", "function", "none"])
def test_corrections_that_cannot_be_stacked_are_applied_one_by_one(shared, way):
    def unit_length(g, y, x, common, own):
        return g / g.norm()

    def of(agents):
        if way == "none":
            return {}
        if way == "function":
            return {agent.name: lambda name, g, y: g + 0.1 * y for agent in agents}
        return corrections(agents, unit_length, elementwise=False)

    together, alone = classifiers(), classifiers(batched=False)
    train_all_alone(together, of(together))
    for agent in alone:
        agent.train_alone(of(alone).get(agent.name))
    for one, two in zip(together, alone, strict=True):
        close(one, two, atol=2e-4 if way == "none" else 0)
