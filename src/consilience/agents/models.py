"""Small torch models for the bundled datasets. Each returns logits (samples, classes)."""

from math import prod

from torch import nn


def mlp(shape: tuple[int, ...], classes: int, hidden: int = 64) -> nn.Module:
    """One hidden layer on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, classes))


def cnn(shape: tuple[int, ...], classes: int, width: int = 16) -> nn.Module:
    """Two 3x3 convolutions, each followed by pooling, on images (channels, height, width)."""
    channels, height, breadth = shape
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * (height // 4) * (breadth // 4), classes),
    )
