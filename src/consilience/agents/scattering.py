"""One learned layer on fixed features of images: what learns most from few rows, few steps, or under much noise."""

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
