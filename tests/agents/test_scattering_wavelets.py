"""The features beside slow loops, their symmetry, and agents that put rows through them once."""

from math import pi, sqrt

import numpy as np
import pytest
import torch

from consilience import ConsilienceError, TorchAgent
from consilience.agents.input_cache import cached_rows
from consilience.agents.scattering import COLOURS, LEVELS, ROOTS, SIZES, Wavelets, morlet, scattering, wavelets
from tests.torch_options import torch_options


def moduli(image, scale):
    """|image * psi| at every second pixel, for every angle."""
    side, far = len(image), 3 * 2**scale
    padded, found = np.pad(image, far, mode="reflect"), np.zeros((8, side // 2, side // 2))
    for angle in range(8):
        psi = morlet(scale, pi * angle / 8)
        for row in range(0, side, 2):
            for column in range(0, side, 2):
                window = padded[row : row + 2 * far + 1, column : column + 2 * far + 1]
                found[angle, row // 2, column // 2] = abs((window * psi).sum())
    return found


def places(image):
    """Means over the left eight of 4 x 4 places."""
    n = len(image) // 4
    return np.array([[image[i * n : i * n + n, j * n : j * n + n].mean() for j in range(2)] for i in range(4)])


def slowly(image, colour):
    """(81, 4, 2) of one colour of one image."""
    (level, spread), (mean, deviation) = LEVELS[colour], ROOTS
    found = [(places(image) - level) / spread]
    first = moduli(image, 0)
    second = [each for one in first for each in moduli(one, 0)]
    for maps, usual in zip((first, moduli(image, 1), second), SIZES[colour], strict=True):
        for one in maps:
            found.append([[(sqrt(u / usual) - mean) / deviation for u in row] for row in places(one)])
    return np.array(found)


@pytest.mark.parametrize("channels", [1, 3])
def test_features_are_those_of_slow_loops(channels):
    x = np.random.default_rng(0).uniform(-1, 1, (2, channels, 16, 16)).astype(np.float32)
    found = Wavelets(channels)(torch.from_numpy(x)).numpy()
    assert found.shape == (2, channels * 81 * 8)
    mixing = np.array(COLOURS) if channels == 3 else np.ones((1, 1))
    for image, features in zip(x.astype(np.float64), found, strict=True):
        colours = [sum(mixing[k, c] * image[c] for c in range(channels)) for k in range(channels)]
        expected = np.array([(slowly(one, k) + slowly(one[:, ::-1], k)) / 2 for k, one in enumerate(colours)]).ravel()
        assert features == pytest.approx(expected / np.sqrt(len(expected)), abs=2e-4)


def test_an_image_and_its_mirror_image_are_the_same():
    x = torch.rand(4, 3, 32, 32) * 2 - 1
    features = Wavelets(3)
    assert torch.allclose(features(x), features(x.flip(3)), atol=1e-6)
    assert not torch.allclose(features(x), features(x.flip(2)), atol=1e-2), "up and down are not"


def agent(network=wavelets, **more):
    draw = np.random.default_rng(0)
    x, y = draw.uniform(-1, 1, (30, 3, 16, 16)).astype(np.float32), draw.integers(0, 3, 30)
    torch.manual_seed(0)
    return TorchAgent(network((3, 16, 16), 3), x, y, "a", **torch_options(batch=10, **more)), x


def test_rows_go_through_the_features_once_and_the_model_is_whole(monkeypatch):
    one, x = agent()
    passed = []
    before = Wavelets.forward
    monkeypatch.setattr(Wavelets, "forward", lambda self, x: passed.append(x.ndim) or before(self, x))
    one.train(x, np.full((30, 3), 1 / 3, np.float32), 0.5)
    assert passed.count(4) == 1, "the shared rows; its own were done when it was made"


def test_weights_that_are_shared_are_those_that_are_learned():
    one, _ = agent()
    assert set(one.weights()) == {"1.weight", "1.bias"}
    assert one.parameters == 3 * (3 * 81 * 8 + 1)


def test_agents_with_other_features_do_not_share_what_they_read():
    one, x = agent()
    two, _ = agent(scattering)
    with cached_rows([x]):
        for each in (one, two):
            with torch.no_grad():
                whole = torch.softmax(each.model.eval()(torch.from_numpy(x)), dim=1)
            assert each.predict(x) == pytest.approx(whole.numpy(), abs=1e-6)


@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 32, 32), (13,)])
def test_other_samples_are_refused(shape):
    with pytest.raises(ConsilienceError, match=r"multiples of 16.*Set side=32"):
        wavelets(shape, 2)
