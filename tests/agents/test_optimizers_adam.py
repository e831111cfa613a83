"""Our Adam is torch's."""

import torch
from torch import nn

from consilience.agents.optimizers import Adam


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.Flatten(), nn.Linear(7 * 36, 5), nn.Linear(5, 2))


def test_steps_are_those_of_torch_to_the_bit_and_go_on_from_a_saved_state():
    """With one layer that gets no gradient in the first steps: it counts its own steps."""
    ours, theirs = network(), network()
    mine, plain = Adam(ours.parameters(), 5e-3), torch.optim.Adam(theirs.parameters(), lr=5e-3)
    for step in range(12):
        x = torch.randn(9, 3, 8, 8)
        for model, optimizer in ((ours, mine), (theirs, plain)):
            optimizer.zero_grad()
            out = model[:-1](x) if step < 3 else model(x)
            out.square().mean().backward()
            optimizer.step()
        if step == 5:
            saved = mine.state_dict()
            mine = Adam(ours.parameters(), 5e-3)
            mine.load_state_dict(saved)
    for one, two in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, two)
    expected = plain.state_dict()["state"]
    for number, slots in mine.state_dict()["state"].items():
        assert all(torch.equal(value, expected[number][slot]) for slot, value in slots.items())
