"""Networks: the published sizes, logits for every image, and nothing read from a pickle."""

import importlib.util
import sys

import numpy as np
import pytest
import torch
from torch import nn

from consilience import ConsilienceError
from consilience.agents import networks
from consilience.agents.torch_agent import TorchAgent
from consilience.agents.training import Training

CIFAR = (3, 32, 32)
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed (consilience[vision])"
)


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def images(samples: int, side: int = 32) -> torch.Tensor:
    return torch.rand(samples, 3, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_resnet20_has_the_size_that_was_published():
    """He et al., 2015, table 6: 0.27 million parameters and 20 layers with weights."""
    model = networks.resnet20(CIFAR, 10)
    assert parameters(model) == 269_722
    assert sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in model.modules()) == 20


def test_the_shortcut_has_no_parameters_and_keeps_what_it_is_given():
    block = networks.ResidualBlock(16, 32, stride=2)
    assert parameters(block) == parameters(block.residual)
    x = torch.randn(2, 16, 8, 8)
    short = block.shortcut(x)
    assert short.shape == block(x).shape == (2, 32, 4, 4)
    assert torch.equal(short[:, 8:24], x[:, :, ::2, ::2])
    assert not short[:, :8].any()
    assert not short[:, 24:].any()
    assert torch.equal(networks.ResidualBlock(16, 16, stride=1).shortcut(x), x)


@pytest.mark.parametrize("make", [networks.resnet20, networks.linear, networks.cnn, networks.mlp])
@pytest.mark.parametrize("classes", [10, 100])
def test_one_row_of_logits_per_image_and_the_same_every_time(make, classes):
    model = make(CIFAR, classes).eval()
    with torch.inference_mode():
        out = model(images(5))
        assert out.shape == (5, classes)
        assert torch.equal(out, model(images(5)))
        torch.testing.assert_close(out[:1], model(images(5)[:1]))


def test_the_linear_model_is_one_layer():
    assert parameters(networks.linear((3, 64, 64), 8)) == 3 * 64 * 64 * 8 + 8


@pytest.mark.parametrize("make", [networks.resnet20, networks.cnn, networks.efficientnet])
def test_tables_are_no_images(make):
    with pytest.raises(ConsilienceError, match="takes images"):
        make((10,), 2)


def test_resnet20_learns_and_goes_on_from_its_state():
    x = images(16, 8).numpy()
    y = (np.arange(16) % 2).astype(np.int64)
    x[y == 1] += 0.5

    def agent() -> TorchAgent:
        torch.manual_seed(0)
        return TorchAgent(networks.resnet20((3, 8, 8), 2), x, y, "a", training=Training(epochs=3))

    one, other = agent(), agent()
    first = one.train(x, None, 0.0)
    other.restore(one.state(), x)
    assert one.train(x, None, 0.0).local == other.train(x, None, 0.0).local < first.local
    np.testing.assert_array_equal(one.predict(x), other.predict(x))


@needs_transformers
def test_efficientnet_b0_has_its_published_size_and_its_input_reaches_the_output():
    """5.3 million parameters with 1000 classes (Tan and Le, 2019, table 2)."""
    torch.manual_seed(0)
    model = networks.efficientnet((3, 64, 64), 1000)
    assert parameters(model) == 5_288_548
    with torch.no_grad():
        out = model(images(4, 64))
    assert out.shape == (4, 1000)
    assert out.std(dim=0).mean() > 0.1


@needs_transformers
def test_the_grey_of_imagenet_comes_in_as_zero():
    model = networks.efficientnet(CIFAR, 5)
    seen: list[torch.Tensor] = []
    model.network.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    model(torch.tensor(networks.IMAGENET_MEAN).reshape(1, 3, 1, 1).expand(2, 3, 32, 32) * 2 - 1)
    torch.testing.assert_close(seen[0], torch.zeros(2, 3, 32, 32), atol=1e-6, rtol=0)


def test_efficientnet_without_its_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConsilienceError, match=r"pip install 'consilience\[vision\]'"):
        networks.efficientnet((3, 64, 64), 8)


def test_efficientnet_refuses_sides_it_cannot_halve_five_times():
    with pytest.raises(ConsilienceError, match="multiples of 32, not 3x84x84"):
        networks.efficientnet((3, 84, 84), 8)
