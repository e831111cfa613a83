"""The scattering transform beside slow loops, and the agent that puts rows through it once."""

from math import pi

import numpy as np
import pytest
import torch

from consilience import ConsilienceError, TorchAgent
from consilience.agents.scattering import USUAL, Scattering, morlet, scattering
from tests.torch_options import torch_options


def slowly(image):
    """Means over 4 x 4 places of the image and of |image * psi| at every second pixel, of one channel: (17, 4, 4)."""
    side = len(image)
    maps = [(image, side // 4, USUAL[0])]
    for scale in (0, 1):
        far = 3 * 2**scale
        padded = np.pad(image, far, mode="reflect")
        for angle in range(8):
            psi = morlet(scale, pi * angle / 8)
            found = np.zeros((side // 2, side // 2))
            for row in range(0, side, 2):
                for column in range(0, side, 2):
                    window = padded[row : row + 2 * far + 1, column : column + 2 * far + 1]
                    found[row // 2, column // 2] = abs((window * psi).sum())
            maps.append((found, side // 8, USUAL[1 + scale]))
    places = [
        [[m[i * n : (i + 1) * n, j * n : (j + 1) * n].mean() for j in range(4)] for i in range(4)] for m, n, _ in maps
    ]
    return np.array([(np.array(p) - mean) / spread for p, (_, _, (mean, spread)) in zip(places, maps, strict=True)])


def test_features_are_those_of_slow_loops():
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


def agent(**more):
    draw = np.random.default_rng(0)
    x, y = draw.uniform(-1, 1, (30, 3, 16, 16)).astype(np.float32), draw.integers(0, 3, 30)
    torch.manual_seed(0)
    return TorchAgent(scattering((3, 16, 16), 3), x, y, "a", **torch_options(batch=10, **more)), x


def test_rows_go_through_the_fixed_layer_once_and_the_model_is_whole(monkeypatch):
    one, x = agent()
    passed = []
    before = Scattering.forward
    monkeypatch.setattr(Scattering, "forward", lambda self, x: passed.append(x.ndim) or before(self, x))
    one.train(x, np.full((30, 3), 1 / 3, np.float32), 0.5)
    assert passed.count(4) == 1, "the shared rows; its own were done when it was made"
    with torch.no_grad():
        whole = torch.softmax(one.model.eval()(torch.from_numpy(x)), dim=1)
    assert one.predict(x) == pytest.approx(whole.numpy(), abs=1e-6)
    assert one.inputs(x).shape == x.shape, "what an exported model takes"


def test_images_that_are_augmented_are_not_read_once():
    one, _ = agent(augment="crop-flip")
    assert one.x.ndim == 4


def test_other_samples_are_refused():
    with pytest.raises(ConsilienceError, match="multiples of 8"):
        scattering((3, 30, 30), 10)
    with pytest.raises(ConsilienceError, match="Set side=32"):
        scattering((13,), 2)
