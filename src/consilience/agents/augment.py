"""Random changes of images that leave their class as it is. They draw from torch's generator."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from consilience.agents.tensors import Inputs
from consilience.base.errors import ConsilienceError


def crop_flip(images: Inputs) -> Inputs:
    """Every image (channels, height, width) moved by up to an eighth of its side, with zeros at the edge, and every
    second one mirrored.
    """
    if not isinstance(images, Tensor) or images.ndim != 4:
        raise ConsilienceError("augment is 'crop-flip', which is for images (channels, height, width). Use 'none'.")
    samples, _, height, width = images.shape
    edge = max(height, width) // 8
    down, right = torch.randint(0, 2 * edge + 1, (2, samples, 1))
    mirrored = torch.rand(samples, 1) < 0.5
    rows = down + torch.arange(height)
    columns = right + torch.where(mirrored, torch.arange(width - 1, -1, -1), torch.arange(width))
    padded = functional.pad(images, (edge, edge, edge, edge)).permute(0, 2, 3, 1)
    number = torch.arange(samples)[:, None, None]
    indices = (index.to(images.device) for index in (number, rows[:, :, None], columns[:, None, :]))
    return padded[tuple(indices)].permute(0, 3, 1, 2)


AUGMENTATIONS: dict[str, Callable[[Inputs], Inputs] | None] = {"none": None, "crop-flip": crop_flip}


def augmentation(name: str) -> Callable[[Inputs], Inputs] | None:
    """The change of this name."""
    if name not in AUGMENTATIONS:
        raise ConsilienceError(f"unknown augmentation {name!r}. Known: {', '.join(AUGMENTATIONS)}.")
    return AUGMENTATIONS[name]
