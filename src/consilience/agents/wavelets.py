"""One learned layer on fixed features of images: what agents learn fastest from few rows and few steps."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from consilience.agents.scattering import ANGLES, PLACES, filters, moduli
from consilience.base.errors import ConsilienceError

COLOURS = ((0.299, 0.587, 0.114), (-0.147, -0.289, 0.436), (0.615, -0.515, -0.100))
"""Luminance and two differences of colours, of red, green and blue (the YUV of colour television)."""
LEVELS = ((0.0, 0.4), (-0.04, 0.12), (0.03, 0.16))
"""Mean and deviation of each colour in natural images (CIFAR-100's, in [-1, 1])."""
SIZES = ((0.028, 0.039, 0.0038), (0.0047, 0.0070, 0.00061), (0.0062, 0.0094, 0.00082))
"""Mean moduli of each colour there: scale 0, scale 1, and the second order."""
ROOTS = (0.9, 0.42)
"""Mean and deviation of the roots of moduli in these sizes, about the same for all."""


def wavelets(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One fully connected layer on `Wavelets`: 19,450 weights for ten classes of small colour images."""
    if len(shape) != 3 or shape[0] not in (1, 3) or any(side % 16 for side in shape[1:]):
        raise ConsilienceError(
            f"wavelets takes grey or colour images whose sides are multiples of 16, not samples of the shape "
            f"{tuple(shape)}. Set side=32, or use linear, mlp or cnn."
        )
    return nn.Sequential(Wavelets(shape[0]), nn.Linear(shape[0] * Wavelets.maps * PLACES * PLACES // 2, classes))


class Wavelets(nn.Module):
    """A scattering transform of the second order (Bruna and Mallat, 2013) that does not tell left from right.

    Of each colour x: the means over 4 x 4 places of x, of |x * psi_{j,a}| for the scales j = 0, 1, and of
    ||x * psi_{0,a}| * psi_{1,b}|, with angles a and b; of the moduli their square roots. All this
    is the mean of an image and its mirror image, so that the left half of the places is enough. Images (samples,
    channels, height, width) in [-1, 1] to (samples, features), standardised by what is usual for natural images and
    divided by the root of their number, so that a sample has a length of about 1. Nothing in it is learned; what is
    features already, (samples, features), passes as it is.
    """

    fixed = True
    maps = 1 + 2 * ANGLES + ANGLES**2
    """Features of each colour at each place."""
    colours: Tensor
    levels: Tensor
    sizes: Tensor
    waves_0: Tensor
    waves_1: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        for scale in (0, 1):
            self.register_buffer(f"waves_{scale}", filters(scale), persistent=False)
        self._keep("colours", np.array(COLOURS) if channels == 3 else np.ones((1, 1)))
        self._keep("levels", np.array(LEVELS[:channels]).T[:, :, None, None, None])
        self._keep("sizes", np.repeat(SIZES[:channels], (ANGLES, ANGLES, ANGLES**2), axis=1)[:, :, None, None])

    def _keep(self, name: str, values: np.ndarray) -> None:
        self.register_buffer(name, torch.from_numpy(values.astype(np.float32)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(samples, channels * maps * 4 * 2)."""
        if x.ndim == 2:
            return x
        x = torch.einsum("kc,nchw->nkhw", self.colours, x)
        maps = (self._left_half(x) + self._left_half(x.flip(3))) / 2
        features: Tensor = maps.flatten(1) / maps[0].numel() ** 0.5
        return features

    def _left_half(self, x: Tensor) -> Tensor:
        """(samples, channels, maps, 4, 2), each about 0 with a deviation of about 1."""
        images = x.flatten(0, 1).unsqueeze(1)
        first = moduli(images, self.waves_0)
        # at every second pixel the filters of scale 0 are those of scale 1
        second = moduli(first.flatten(0, 1).unsqueeze(1), self.waves_0)
        second = second.reshape(len(images), ANGLES**2, *second.shape[2:])
        maps = [
            functional.adaptive_avg_pool2d(m, PLACES) for m in (images, first, moduli(images, self.waves_1), second)
        ]
        left = torch.cat(maps, dim=1)[..., : PLACES // 2].reshape(*x.shape[:2], self.maps, PLACES, PLACES // 2)
        level, lengths = left[:, :, :1], left[:, :, 1:]
        mean, deviation = ROOTS
        means, deviations = self.levels
        roots = ((lengths / self.sizes).sqrt() - mean) / deviation
        return torch.cat([(level - means) / deviations, roots], dim=2)
