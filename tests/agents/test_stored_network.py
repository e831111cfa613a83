"""What is kept of an agent around a network."""

import pytest
import torch
from torch.nn import functional

from consilience import TorchAgent
from consilience.agents.training import Training
from tests.agents.test_network_rounds import same_state
from tests.agents.test_torch_agent import network, soft_labels
from tests.conftest import blobs


def test_restored_agent_goes_on_bit_for_bit(shared):
    x, y = blobs(80, seed=1)
    psi = soft_labels(len(shared))
    whole = TorchAgent(network(dropout=0.3, norm=True), x, y, "a")
    for _ in range(4):
        whole.train(shared, psi, 0.5)
    half = TorchAgent(network(dropout=0.3, norm=True), x, y, "a")
    for _ in range(2):
        half.train(shared, psi, 0.5)
    saved = half.state()
    resumed = TorchAgent(network(seed=77, dropout=0.3, norm=True), x, y, "a")
    resumed.restore(saved, shared)
    for _ in range(2):
        resumed.train(shared, psi, 0.5)
    assert same_state(whole, resumed)


@pytest.mark.parametrize("make", [torch.optim.Adam, torch.optim.SGD, torch.optim.AdamW])
def test_optimizer_state_lives_on_across_rounds(shared, make):
    """Two rounds of one epoch equal what one optimizer would do; a fresh optimizer each round would differ."""
    x, y = blobs(40, seed=1)
    options = {"momentum": 0.9} if make is torch.optim.SGD else {}
    agent = TorchAgent(
        network(), x, y, "a", training=Training(epochs=1), optimizer=lambda p: make(p, lr=0.05, **options)
    )
    agent.train(shared, None, 0.0)
    agent.train(shared, None, 0.0)
    model, inputs, labels = network(), torch.from_numpy(x), torch.from_numpy(y)
    optimizer = make(model.parameters(), lr=0.05, **options)
    for _ in range(2):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    for mine, plain in zip(agent.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-5)
