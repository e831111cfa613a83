"""Images as bytes: three networks of different architectures, each with its own way to read them.

The shared rows are what a camera gives (uint8). A transform scales them, once; an augmentation shifts every batch.
"""

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import nn

import consilience as cs

pixels, y = load_digits(return_X_y=True)
pixels = (pixels * 255 / 16).astype(np.uint8).reshape(-1, 1, 8, 8)
order = np.random.default_rng(0).permutation(len(y))
pixels, y = pixels[order], y[order]


def scaled(images: np.ndarray) -> np.ndarray:
    """Bytes as numbers from -1 to 1."""
    return (images / 127.5 - 1).astype(np.float32)


def small(images: np.ndarray) -> np.ndarray:
    """The same at half the size, for a model that wants few inputs."""
    return scaled(images).reshape(-1, 1, 4, 2, 4, 2).mean(axis=(3, 5), dtype=np.float32)


def shifted(batch: torch.Tensor) -> torch.Tensor:
    """Every image one pixel up, down or not at all: drawn from the agent's own stream."""
    rows = (torch.arange(8) + torch.randint(-1, 2, (len(batch), 1))) % 8
    return batch.gather(2, rows[:, None, :, None].expand_as(batch))


torch.manual_seed(0)
convolutions = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
normalised = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(144, 10)
)
dense = nn.Sequential(nn.Flatten(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
private = [slice(900 + 60 * n, 960 + 60 * n) for n in range(3)]
readers = [(convolutions, scaled, shifted), (normalised, scaled, None), (dense, small, None)]
agents = [
    cs.TorchAgent(model, pixels[part], y[part], name, transform=transform, augment=augment)
    for (model, transform, augment), part, name in zip(readers, private, ["conv", "norm", "dense"], strict=True)
]
target = (pixels[300:900], y[300:900])
result = cs.collaborate(agents, pixels[:300], method=cs.Consensus(warmup=5, lam=1.0), rounds=20, target=target)
scores = result.history.pivot(index="round", columns="agent", values="accuracy_target")
alone = result.run.references["alone"].last_round().set_index("agent")["accuracy_target"]
print(pd.DataFrame({"alone": alone, "together": scores.iloc[-1]}).round(3))
