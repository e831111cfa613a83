"""Torch models for images and tables. Each is made from the shape of a sample and returns logits (samples, classes)."""

import os
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from consilience.base.errors import ConsilienceError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def mlp(shape: tuple[int, ...], classes: int, hidden: int = 64) -> nn.Module:
    """One hidden layer on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, classes))


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One fully connected layer on the flattened input: the paper's weak model."""
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), classes))


def convnet(shape: tuple[int, ...], classes: int, width: int = 16) -> nn.Module:
    """Three strided convolutions with batch norm: a quick stand-in for ResNet20 on small colour images."""
    channels, height, breadth = shape
    return nn.Sequential(
        nn.Conv2d(channels, width, 4, stride=2, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(inplace=True),
        nn.Conv2d(2 * width, 2 * width, 4, stride=2, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(2 * width * (height // 8) * (breadth // 8), classes),
    )


def cnn(shape: tuple[int, ...], classes: int, width: int = 16) -> nn.Module:
    """Two 3x3 convolutions, each followed by pooling, on images (channels, height, width)."""
    channels, height, breadth = _image_shape("cnn", shape)
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


def resnet20(shape: tuple[int, ...], classes: int) -> nn.Module:
    """ResNet-20 for small images: 0.27 million parameters (He et al., Deep residual learning, 2015, section 4.2).

    A 3x3 convolution, then three stages of three blocks with 16, 32 and 64 channels, then the mean over the image.
    """
    channels, _, _ = _image_shape("resnet20", shape)
    layers: list[nn.Module] = [nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)]
    layers.append(nn.ReLU(inplace=True))
    before = 16
    for stage, width in enumerate((16, 32, 64)):
        for block in range(3):
            layers.append(ResidualBlock(before, width, stride=2 if stage and not block else 1))
            before = width
    network = nn.Sequential(*layers, ImageMean(), nn.Linear(64, classes))
    _initialise(network)
    return network


def convnet_gn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """`convnet` with group norm, which treats every sample on its own: for private agents."""
    return with_group_norm(convnet(shape, classes))


def resnet20_gn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """`resnet20` with group norm: for private agents."""
    return with_group_norm(resnet20(shape, classes))


def efficientnet_gn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """`efficientnet` with group norm and random weights: for private agents."""
    return with_group_norm(efficientnet(shape, classes))


def with_group_norm(network: nn.Module, channels: int = 8) -> nn.Module:
    """The network with group norms over about this many channels instead of batch norms, and no operation in place."""
    for parent in list(network.modules()):
        if isinstance(parent, ResidualBlock):
            parent.in_place = False
        for name, layer in list(parent.named_children()):
            if isinstance(layer, nn.BatchNorm2d):
                groups = max(1, layer.num_features // channels)
                while layer.num_features % groups:
                    groups -= 1
                setattr(parent, name, nn.GroupNorm(groups, layer.num_features))
            elif getattr(layer, "inplace", False):
                layer.inplace = False  # type: ignore[assignment]
    return network


class ImageMean(nn.Module):
    """The mean of each channel over the image. Its gradient is in memory as colour images are, channels last."""

    def forward(self, x: Tensor) -> Tensor:
        """(samples, channels, height, width) to (samples, channels)."""
        return x.permute(0, 2, 3, 1).flatten(1, 2).mean(dim=1)


class ResidualBlock(nn.Module):
    """relu(F(x) + x) with F two 3x3 convolutions. The shortcut has no parameters (option A of He et al., 2015)."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride, self.added, self.in_place = stride, width - channels, True
        self.residual = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def shortcut(self, x: Tensor) -> Tensor:
        """Every `stride`-th pixel; channels that are new are zero, half of them before the old ones, half after.

        Done with the channels last, as images are in memory, so that the gradient is there in the same order.
        """
        if self.stride == 1 and not self.added:
            return x
        before = self.added // 2
        pixels = x.permute(0, 2, 3, 1)[:, :: self.stride, :: self.stride]
        return functional.pad(pixels, (before, self.added - before)).permute(0, 3, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """relu(F(x) + shortcut(x))."""
        if not self.in_place:
            return functional.relu(self.residual(x) + self.shortcut(x))
        total: Tensor = self.residual(x).add_(self.shortcut(x))
        return total.relu_()


def efficientnet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """EfficientNet-B0 (Tan and Le, 2019) with random weights, through `transformers`, on images scaled to [-1, 1]."""
    channels, height, width = _image_shape("efficientnet", shape)
    if channels != 3 or height % 32 or width % 32:
        raise ConsilienceError(
            f"efficientnet takes colour images whose sides are multiples of 32, not {channels}x{height}x{width}. "
            "Set side=64, or use another model."
        )
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from transformers import EfficientNetConfig, EfficientNetForImageClassification
    except ImportError as error:
        raise ConsilienceError("efficientnet needs more packages: pip install 'consilience[vision]'.") from error
    config = EfficientNetConfig(
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        image_size=224,
        dropout_rate=0.2,
        num_labels=classes,
    )
    network = EfficientNetForImageClassification(config)
    _initialise(network)
    return ImageNetLogits(network)


class ImageNetLogits(nn.Module):
    """A `transformers` classifier as a plain model: images in [-1, 1] in, logits out.

    Inputs are standardised with the mean and deviation of ImageNet, as in its training. Batch norm takes a tenth
    of each new batch; the 0.99 that comes with EfficientNet is TensorFlow's, and would here forget all but the last.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).reshape(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(IMAGENET_STD).reshape(3, 1, 1), persistent=False)
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.momentum = 0.1

    def forward(self, x: Tensor) -> Tensor:
        """Logits (samples, classes)."""
        logits: Tensor = self.network(((x + 1) / 2 - self.mean) / self.std).logits
        return logits


def _initialise(network: nn.Module) -> None:
    """Convolutions by He et al. (2015), fan out; batch norm as the identity.

    The random weights of `transformers` scale every batch norm by about 0.02: nothing of the input is left after
    the first ten layers, and nothing can be learned.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)


def _image_shape(model: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise ConsilienceError(
            f"{model} takes images (channels, height, width), but a sample has the shape {tuple(shape)}. "
            "Use mlp, linear, forest, boosting or logistic."
        )
    return shape[0], shape[1], shape[2]
