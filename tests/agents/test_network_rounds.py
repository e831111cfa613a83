"""The rounds of a network: random numbers of its own, and an end that says what went wrong."""

import numpy as np
import pytest
import torch

from consilience import ConsilienceError, TorchAgent
from tests.agents.test_torch_agent import network, soft_labels
from tests.conftest import blobs
from tests.torch_options import torch_options


def same_state(a: TorchAgent, b: TorchAgent) -> bool:
    one, two = a.state(), b.state()
    return one.keys() == two.keys() and all(np.array_equal(one[key], two[key]) for key in one)


def test_numbers_depend_on_the_seed_and_name_not_on_who_trained_before(shared):
    """Dropout and batches come from the agent's own streams; the global stream of torch is left alone."""
    x, y = blobs(80, seed=1)

    def train(noise: bool, **kwargs: object) -> TorchAgent:
        agent = TorchAgent(network(dropout=0.3), x, y, **torch_options(**kwargs))
        torch.manual_seed(123)
        if noise:
            torch.rand(17)
        agent.train(shared, soft_labels(len(shared)), 0.5)
        return agent

    alone, after_others = train(False, name="a"), train(True, name="a")
    assert same_state(alone, after_others)
    assert not same_state(alone, train(False, name="a", seed=1))
    torch.manual_seed(123)
    expected = torch.rand(1)
    train(False, name="a")
    torch.manual_seed(123)
    assert torch.rand(1) == expected


def test_batches_cover_everything_and_none_is_a_lone_sample():
    from consilience.agents.training import batches

    for samples in (2, 64, 65, 129, 1000):
        parts = batches(np.random.default_rng(0), samples, 64)
        assert sorted(np.concatenate(parts).tolist()) == list(range(samples))
        assert all(2 <= len(part) <= 64 for part in parts)


def test_divergence_is_reported(shared):
    x, y = blobs(20, seed=1)
    agent = TorchAgent(network(), np.where(x > 2, np.inf, x).astype(np.float32), y, "a")
    with pytest.raises(ConsilienceError, match="agent 'a': training diverged in round 1"):
        agent.train(shared, None, 0.0)
