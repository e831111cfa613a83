"""The loop as it is usually written: DataLoaders, images (channels, height, width), torch's Adam, agents in turn."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from consilience.agents import networks
from consilience.agents.networks import ResidualBlock


class PlainAgent:
    """A model with its private data and optimizer."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, lr: float = 5e-3) -> None:
        self.model = model
        self.loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train(self, shared: Tensor, psi: Tensor, lam: float, epochs: int) -> float:
        """Local training on private batches of 64 and shared ones of 256; returns the mean loss."""
        self.model.train()
        batches = endless(DataLoader(TensorDataset(shared, psi), batch_size=256, shuffle=True))
        total, steps = 0.0, 0
        for _ in range(epochs):
            for x, y in self.loader:
                shared_x, target = next(batches)
                self.optimizer.zero_grad()
                loss = functional.cross_entropy(self.model(x), y)
                loss = loss + lam * functional.cross_entropy(self.model(shared_x), target)
                loss.backward()
                self.optimizer.step()
                total, steps = total + loss.item(), steps + 1
        return total / steps


class PlainBlock(ResidualBlock):
    """A residual block with its shortcut as usually written, for images (channels, height, width)."""

    def shortcut(self, x: Tensor) -> Tensor:
        """Every `stride`-th pixel, and new channels that are zero."""
        if self.stride == 1 and not self.added:
            return x
        before = self.added // 2
        return functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.added - before))


def plain_model(name: str) -> nn.Module:
    """A built-in model for 32x32 colour images and ten classes, as usually written."""
    network = getattr(networks, name)((3, 32, 32), 10)
    for index, layer in enumerate(network):
        if isinstance(layer, ResidualBlock):
            layer.__class__ = PlainBlock
        elif isinstance(layer, networks.ImageMean):
            network[index] = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return network


def endless(loader: DataLoader) -> Iterator[list[Tensor]]:
    """The batches of `loader`, over and over."""
    while True:
        yield from loader
