"""A plugin: EfficientNet-Lite0 with ImageNet weights, of which all layers learn, as the model `lite0`."""

from torch import Tensor, nn

from consilience import extend
from consilience.agents.backbones.named import encoder_named


class Lite0(nn.Module):
    """Images in [-1, 1] to logits."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = encoder_named("efficientnet-lite0", 0).module
        self.head = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(samples, 3, height, width) to (samples, classes)."""
        return self.head(self.body.extract_features(x).mean(dim=(2, 3)))


@extend.network("lite0")
def lite0(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The network for images of this shape."""
    return Lite0(classes)
