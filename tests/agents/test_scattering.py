"""Fixed features of images beside slow loops, their symmetry, and agents that put rows through them once."""

from math import pi, sqrt

import numpy as np
import pytest
import torch

from consilience import ConsilienceError, TorchAgent
from consilience.agents.input_cache import cached_rows
from consilience.agents.scattering import (
    COLOURS,
    LEVELS,
    ROOTS,
    SIZES,
    USUAL,
    Scattering,
    Wavelets,
    morlet,
    scattering,
    wavelets,
)
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
    """Means over 4 x 4 places."""
    n = len(image) // 4
    return np.array([[image[i * n : i * n + n, j * n : j * n + n].mean() for j in range(4)] for i in range(4)])


def left_places(image):
    """Means over the left eight of 4 x 4 places."""
    return places(image)[:, :2]


def slowly(image):
    """Means over 4 x 4 places of the image and of |image * psi| at every second pixel, of one channel: (17, 4, 4)."""
    maps = [(image, USUAL[0]), *((one, USUAL[1 + scale]) for scale in (0, 1) for one in moduli(image, scale))]
    return np.array([(places(one) - mean) / spread for one, (mean, spread) in maps])


def slowly_by_colour(image, colour):
    """(81, 4, 2) of one colour of one image."""
    (level, spread), (mean, deviation) = LEVELS[colour], ROOTS
    found = [(left_places(image) - level) / spread]
    first = moduli(image, 0)
    second = [each for one in first for each in moduli(one, 0)]
    for maps, usual in zip((first, moduli(image, 1), second), SIZES[colour], strict=True):
        for one in maps:
            found.append([[(sqrt(u / usual) - mean) / deviation for u in row] for row in left_places(one)])
    return np.array(found)


def test_a_scattering_transform_is_that_of_slow_loops():
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 16, 16)).astype(np.float32)
    found = Scattering()(torch.from_numpy(x)).numpy()
    assert found.shape == (2, 3 * 17 * 16)
    for image, features in zip(x, found, strict=True):
        expected = np.concatenate([slowly(channel.astype(np.float64)).ravel() for channel in image])
        assert features == pytest.approx(expected / np.sqrt(len(expected)), abs=2e-4)


def test_filters_sum_to_zero_and_answer_to_their_own_wave():
    for scale in (0, 1):
        waves = [morlet(scale, pi * angle / 8) for angle in range(8)]
        assert max(abs(wave.sum()) for wave in waves) < 1e-12
        far = 3 * 2**scale
        rows = np.arange(-far, far + 1)[:, None]
        stripes = np.cos(0.75 * pi / 2**scale * rows) * np.ones(2 * far + 1)
        answers = [abs((stripes * wave).sum()) for wave in waves]
        assert np.argmax(answers) == 0 and answers[4] < 0.01 * answers[0]


@pytest.mark.parametrize("channels", [1, 3])
def test_features_of_the_second_order_are_those_of_slow_loops(channels):
    x = np.random.default_rng(0).uniform(-1, 1, (2, channels, 16, 16)).astype(np.float32)
    found = Wavelets(channels)(torch.from_numpy(x)).numpy()
    assert found.shape == (2, channels * 81 * 8)
    mixing = np.array(COLOURS) if channels == 3 else np.ones((1, 1))
    for image, features in zip(x.astype(np.float64), found, strict=True):
        colours = [sum(mixing[k, c] * image[c] for c in range(channels)) for k in range(channels)]
        expected = np.array(
            [(slowly_by_colour(one, k) + slowly_by_colour(one[:, ::-1], k)) / 2 for k, one in enumerate(colours)]
        ).ravel()
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


@pytest.mark.parametrize(("network", "layer"), [(scattering, Scattering), (wavelets, Wavelets)])
def test_rows_go_through_the_fixed_layer_once_and_the_model_is_whole(monkeypatch, network, layer):
    one, x = agent(network)
    passed = []
    before = layer.forward
    monkeypatch.setattr(layer, "forward", lambda self, x: passed.append(x.ndim) or before(self, x))
    one.train(x, np.full((30, 3), 1 / 3, np.float32), 0.5)
    assert passed.count(4) == 1, "the shared rows; its own were done when it was made"
    with torch.no_grad():
        whole = torch.softmax(one.model.eval()(torch.from_numpy(x)), dim=1)
    assert one.predict(x) == pytest.approx(whole.numpy(), abs=1e-6)
    assert one.inputs(x).shape == x.shape, "what an exported model takes"


def test_images_that_are_augmented_are_not_read_once():
    one, _ = agent(scattering, augment="crop-flip")
    assert one.x.ndim == 4


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


@pytest.mark.parametrize(
    ("network", "shape", "sides"),
    [
        (scattering, (3, 30, 30), "multiples of 8"),
        (scattering, (13,), "multiples of 8"),
        (wavelets, (3, 24, 24), "multiples of 16"),
        (wavelets, (2, 32, 32), "multiples of 16"),
        (wavelets, (13,), "multiples of 16"),
    ],
)
def test_other_samples_are_refused(network, shape, sides):
    with pytest.raises(ConsilienceError, match=rf"{sides}.*Set side=32"):
        network(shape, 2)
