"""A linear model on fixed features of images: what learns best from few private rows under much noise."""

from math import pi

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from consilience.base.errors import ConsilienceError

ANGLES, SCALES, PLACES = 8, 2, 4
USUAL = ((-0.05, 0.45), (0.029, 0.020), (0.041, 0.029))
"""Mean and deviation of the features of natural images: colours, then each scale (CIFAR-100's images in [-1, 1])."""


def scattering(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One fully connected layer on a scattering transform of the first order, whose filters are fixed.

    There is little to learn (8,170 weights for ten classes of small colour images), so that little noise is needed
    (Tramer and Boneh, Differentially private learning needs better features, 2021).
    """
    if len(shape) != 3 or any(side % 8 or side < 16 for side in shape[1:]):
        raise ConsilienceError(
            f"scattering takes images whose sides are multiples of 8 and at least 16, not samples of the shape "
            f"{tuple(shape)}. Set side=32, or use linear, mlp or cnn."
        )
    features = Scattering()
    return nn.Sequential(features, nn.Linear(shape[0] * features.maps * PLACES**2, classes))


class Scattering(nn.Module):
    """The means of x and of |x * psi_{j,a}| over each of 4 x 4 places, for scales j, angles a and every channel.

    Images (samples, channels, height, width) to (samples, features); standardised by what is usual for natural images,
    and divided by the root of their number, so that a sample has a length of about 1. Nothing in it is learned; what is
    features already, (samples, features), passes as it is.
    """

    fixed = True
    maps = 1 + SCALES * ANGLES
    """Features of each channel at each place."""
    means: Tensor
    spreads: Tensor

    def __init__(self) -> None:
        super().__init__()
        for scale in range(SCALES):
            self.register_buffer(f"waves_{scale}", filters(scale), persistent=False)
        means, deviations = (np.repeat(each, (1, *[ANGLES] * SCALES)) for each in np.array(USUAL).T)
        self.register_buffer("means", torch.tensor(means, dtype=torch.float32)[:, None, None], persistent=False)
        self.register_buffer("spreads", torch.tensor(deviations, dtype=torch.float32)[:, None, None], persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(samples, channels * maps * 4 * 4). Moduli are taken at every second pixel."""
        if x.ndim == 2:
            return x
        samples, channels = x.shape[:2]
        images = x.flatten(0, 1).unsqueeze(1)
        maps = [functional.adaptive_avg_pool2d(images, PLACES)]
        for scale in range(SCALES):
            maps.append(functional.adaptive_avg_pool2d(moduli(images, getattr(self, f"waves_{scale}")), PLACES))
        each = (torch.cat(maps, dim=1) - self.means) / self.spreads
        size = channels * self.maps * PLACES**2
        features: Tensor = each.reshape(samples, size) / size**0.5
        return features


def filters(scale: int) -> Tensor:
    """Real, then imaginary parts of the Morlet filters of all angles: (2 x angles, 1, height, width)."""
    waves = np.stack([morlet(scale, pi * angle / ANGLES) for angle in range(ANGLES)])
    return torch.from_numpy(np.concatenate([waves.real, waves.imag])[:, None].astype(np.float32))


def moduli(images: Tensor, waves: Tensor) -> Tensor:
    """|x * psi_a| of (images, 1, height, width) at every second pixel: (images, angles, height / 2, width / 2)."""
    far = waves.shape[-1] // 2
    convolved = functional.conv2d(functional.pad(images, (far,) * 4, mode="reflect"), waves, stride=2)
    return (convolved[:, :ANGLES].square() + convolved[:, ANGLES:].square()).sqrt()


def morlet(scale: int, angle: float) -> NDArray[np.complex128]:
    """psi(u) = (e^(i xi u_1) - k) e^(-(u_1^2 + u_2^2 / 4) / (2 sigma^2)) / (4 pi sigma^2), with u turned by the angle.

    sigma = 0.8 2^j and xi = 3 pi / 4 / 2^j for scale j; k makes the filter sum to zero (Bruna and Mallat, 2013).
    """
    sigma, xi, far = 0.8 * 2**scale, 0.75 * pi / 2**scale, 3 * 2**scale
    rows, columns = np.mgrid[-far : far + 1, -far : far + 1]
    along, across = (
        rows * np.cos(angle) + columns * np.sin(angle),
        columns * np.cos(angle) - rows * np.sin(angle),
    )
    window = np.exp(-(along**2 + across**2 / 4) / (2 * sigma**2))
    wave = window * np.exp(1j * xi * along)
    zero_sum_wave: NDArray[np.complex128] = (wave - wave.sum() / window.sum() * window) / (4 * pi * sigma**2)
    return zero_sum_wave
