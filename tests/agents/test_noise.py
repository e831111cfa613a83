"""How noisy an agent's own values are."""

import numpy as np
import torch
from torch import nn

from consilience import TorchAgent
from consilience.agents.training import Training
from tests.agents.test_torch_agent import network
from tests.conftest import FEATURES, blobs


def test_noise_is_measured_on_values_that_a_copy_of_the_model_did_not_see(shared):
    """A network that learns its few noisy values by heart still knows how noisy they are."""
    draw = np.random.default_rng(0)
    x = draw.normal(0, 1, (30, FEATURES)).astype(np.float32)
    y = draw.normal(0, 1, (30, 1)).astype(np.float32)
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(FEATURES, 100), nn.ReLU(), nn.Linear(100, 1))
    agent = TorchAgent(wide, x, y, "a", task="regression", training=Training(epochs=150))
    agent.train(shared, None, 0.0)
    before = agent.state()
    assert np.abs(agent.predict(x) - y).mean() < 0.2
    assert agent.noise > 0.9
    for key, value in before.items():
        np.testing.assert_array_equal(agent.state()[key], value, err_msg="measuring changes nothing")
    again = TorchAgent(wide, x, y, "a", task="regression")
    again.restore(agent.state(), shared)
    assert again.noise == agent.noise
    assert TorchAgent(network(), *blobs(30, seed=1), "a").noise == 1.0
