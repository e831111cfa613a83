"""Backbones: features are computed once, the same on any number of cores, kept on disk, and bad rows are refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import consilience as cs
from consilience.agents.backbones import backbone as module
from consilience.agents.backbones.backbone import Backbone, stored_backbone
from consilience.agents.backbones.feature_cache import watched
from consilience.core.crossed import coins
from consilience.data.crossed import crossed_in_features


class Counted(nn.Module):
    """A small convolution, and how many rows passed through it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.passed = nn.Conv2d(3, 5, 3, stride=2), 0

    def forward(self, x):
        self.passed += len(x)
        return self.layer(x)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def images(rows, seed=0, side=12):
    return np.random.default_rng(seed).integers(0, 256, (rows, 3, side, side), dtype=np.uint8)


def slowly(network, x, mean=127.0, deviation=128.0):
    scaled = (torch.from_numpy(x).float() - mean) / deviation
    with torch.inference_mode():
        return torch.stack([network.layer(row[None])[0].mean(dim=(1, 2)) for row in scaled]).numpy()


def test_features_are_the_means_of_the_maps_of_scaled_pixels():
    network, x = Counted(), images(9)
    np.testing.assert_allclose(Backbone(network, side=12)(x), slowly(network, x), atol=1e-5)


def test_bytes_fractions_lists_and_channels_last_are_the_same_images():
    backbone, x = Backbone(Counted(), side=12), images(9)
    expected = backbone(x)
    fractions = (x / 127.5 - 1).astype(np.float32)
    np.testing.assert_allclose(backbone(fractions), expected, atol=1e-5)
    np.testing.assert_allclose(backbone(x.transpose(0, 2, 3, 1)), expected, atol=1e-5)
    np.testing.assert_allclose(backbone(torch.from_numpy(x)), expected, atol=1e-5)
    image = pytest.importorskip("PIL.Image")
    pictures = [image.fromarray(row.transpose(1, 2, 0)) for row in x]
    np.testing.assert_allclose(backbone(pictures), expected, atol=1e-5)


def test_features_of_a_set_are_computed_once_whoever_asks(cache):
    network, x = Counted(), images(96)
    first = Backbone(network, side=12)(x)
    assert network.passed == 96
    again = Backbone(network, side=12)(x.copy())
    np.testing.assert_array_equal(first, again)
    assert network.passed == 96 and len(list(cache.glob("*.safetensors"))) == 1
    file = next(cache.glob("*.safetensors"))
    assert file.stat().st_mode & 0o077 == 0, "features of private rows are for their owner alone"
    file.write_bytes(file.read_bytes()[:100])  # as after a full disk
    np.testing.assert_array_equal(Backbone(network, side=12)(x), first)
    assert network.passed == 192


def test_other_weights_sizes_and_rows_have_other_features(cache):
    network, x = Counted(), images(70)
    backbone = Backbone(network, side=12)
    prints = {backbone.fingerprint, Backbone(network, side=16).fingerprint, Backbone(network, mean=0.0).fingerprint}
    with torch.no_grad():
        changed = Counted()
        changed.layer.bias += 1
    prints.add(Backbone(changed, side=12).fingerprint)
    assert len(prints) == 4
    assert not np.allclose(Backbone(changed, side=12)(x), backbone(x))


def test_parts_of_a_remembered_dataset_are_not_computed_again():
    network, x = Counted(), images(80)
    backbone = Backbone(network, side=12)
    backbone.remember(x)
    passed, parts = network.passed, np.random.default_rng(0).permutation(80)[:30]
    np.testing.assert_array_equal(backbone(x[parts]), backbone(x)[parts])
    assert network.passed == passed
    assert backbone(images(3, seed=9)).shape == (3, 5) and network.passed == passed + 16, "no fewer together"


def test_the_number_of_cores_changes_no_bit(monkeypatch, tmp_path):
    x, features = images(300), []
    for cores in (1, 3):
        monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / str(cores)))
        monkeypatch.setattr(module, "_cores", lambda cores=cores: cores)
        features.append(Backbone(Counted(), side=12)(x))
    np.testing.assert_array_equal(*features)


def test_progress_is_told_up_to_the_last_row(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    told = []
    with watched(lambda *news: told.append(news)):
        Backbone(Counted(), side=12)(images(150))
    assert [done for _, done, _ in told] == [64, 128, 192]
    assert {(name, rows) for name, _, rows in told} == {("Counted", 150)}


def test_standardised_features_have_mean_zero_and_deviation_one_on_shared_rows():
    network, shared = Counted(), images(90)
    with torch.no_grad():
        network.layer.weight[2], network.layer.bias[2] = 0, 3.0  # a feature that never varies
    backbone = Backbone(network, side=12).standardised(shared)
    features = backbone(shared)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(features.std(axis=0)[[0, 1, 3, 4]], 1, atol=1e-4)
    assert np.abs(features[:, 2]).max() < 1e-3


def test_crossed_rows_take_each_feature_from_one_of_two_rows():
    network, shared = Counted(), images(20)
    backbone = Backbone(network, side=12)
    rows = crossed_in_features(shared, 40, seed=5)
    features, made = backbone(shared), backbone(rows)
    from_b = coins(40, 5, seed=5)
    np.testing.assert_array_equal(made[:20], features)
    for n in range(40):
        for k in range(5):
            assert made[20 + n, k] == features[rows.b[20 + n] if from_b[n, k] else rows.a[20 + n], k]
    assert network.passed == 64, "20 rows twice, filled up, as few rows are not kept on disk"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["a text", "another"], "row 0 is a text. Use one for texts"),
        (
            pd.DataFrame({"review": ["a text", "b"]}),
            "takes images, and the rows are those of a table. Use one for texts",
        ),
        (np.zeros((3, 4, 9, 9), np.uint8), r"a row of the shape \(4, 9, 9\) is no image"),
        (np.zeros((3, 3, 9, 9), np.int64), "images as int64 are not read. Give bytes"),
        (np.full((3, 3, 9, 9), 7.5), "lie in .* go from 7.5 to 7.5"),
        ([np.zeros((9, 9, 3), np.uint8), np.zeros((9, 8, 3), np.uint8)], "an image of 9x9 pixels, row 1 one of 8x9"),
        ([{"a": 1}, {"a": 2}], "row 0 is a dict and no image"),
    ],
)
def test_rows_that_are_no_images_are_refused_with_what_to_do(rows, says):
    with pytest.raises(cs.ConsilienceError, match=says):
        Backbone(Counted())(rows)


def test_a_network_whose_output_is_no_features_is_refused():
    with pytest.raises(cs.ConsilienceError, match="must return features"):
        Backbone(nn.Unflatten(1, (1, 3)), side=4)(images(2, side=4))
    with pytest.raises(cs.ConsilienceError, match="side is -1"):
        Backbone(Counted(), side=-1)


def test_a_folder_that_cannot_be_written_to_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONSILIENCE_CACHE", str(tmp_path / "file"))
    with pytest.raises(cs.ConsilienceError, match=r"cannot keep features in .* CONSILIENCE_CACHE"):
        Backbone(Counted(), side=12)(images(70))


def agents_on(backbone, samples=30):
    draw = np.random.default_rng(7)
    made = []
    torch.manual_seed(2)
    for name in "abc":
        x, y = images(samples, seed=ord(name)), draw.integers(0, 3, samples)
        x[np.arange(samples), y] = np.minimum(x[np.arange(samples), y] // 2 + 120, 255)
        made.append(cs.TorchAgent(nn.Linear(5, 3), x, y, name, transform=backbone, seed=3))
    return made


def test_agents_that_share_a_backbone_cross_rows_in_its_features(tmp_path):
    network, shared = Counted(), images(80, seed=77)
    backbone = Backbone(network, side=12).standardised(shared)
    y = np.arange(80) % 3
    options = {"rounds": 4, "method": cs.Consensus(warmup=1), "progress": False, "shared_labels": y}
    whole = cs.collaborate(agents_on(backbone), shared, crossed=50, out=tmp_path / "whole", **options)
    none = cs.collaborate(agents_on(backbone), shared, crossed=0, **options)
    auto = cs.collaborate(agents_on(backbone), shared, **options)
    sent = [result.history["bytes_sent"].iloc[-1] for result in (none, whole, auto)]
    assert sent == [2 * 4 * 3 * rows for rows in (80, 130, 3080)]
    assert whole.history["accuracy_shared"].iloc[-1] in np.arange(81) / 80, "measured on the 80 rows alone"
    cs.collaborate(agents_on(backbone), shared, crossed=50, out=tmp_path / "part", **(options | {"rounds": 2}))
    resumed = cs.collaborate(agents_on(backbone), shared, crossed=50, out=tmp_path / "part", resume=True, **options)
    pd.testing.assert_frame_equal(resumed.history, whole.history, check_exact=True)
    with pytest.raises(cs.ConsilienceError, match="crossed"):
        cs.collaborate(
            agents_on(backbone), shared, crossed=51, out=tmp_path / "part", resume=True, **(options | {"rounds": 5})
        )


def test_heads_are_solved_exactly_with_the_method_for_them_unasked_and_overruled():
    shared = images(40, seed=77)
    backbone = Backbone(Counted(), side=12).standardised(shared)
    agents, options = agents_on(backbone), {"rounds": 2, "progress": False, "crossed": 20}
    assert all(agent.solves_exactly for agent in agents)
    result = cs.collaborate(agents, shared, **options)
    named = cs.collaborate(agents_on(backbone), shared, method=cs.Consensus.for_heads(), **options)
    pd.testing.assert_frame_equal(result.history, named.history, check_exact=True)
    assert "exact steps" in result.run.summary.notes[0] and not named.run.summary.notes
    usual = cs.collaborate(agents_on(backbone), shared, method=cs.Consensus(warmup=1), **options)
    assert not usual.run.summary.notes and len(usual.trust) == 1
    x, y = images(30, seed=1), np.arange(30) % 3
    steps = cs.TorchAgent(nn.Linear(5, 3), x, y, "a", transform=backbone, training=cs.Training(solver="steps"))
    deep = cs.TorchAgent(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), x, y, "b", transform=backbone)
    private = cs.TorchAgent(nn.Linear(5, 3), x, y, "c", transform=backbone, privacy=cs.Privacy(epsilon=8, delta=1e-3))
    assert not any(agent.solves_exactly for agent in (steps, deep, private))


def test_agents_with_different_backbones_cross_the_images_themselves():
    torch.manual_seed(1)
    other, shared = Counted(), images(40, seed=77)
    with torch.no_grad():
        other.layer.weight *= -1
    agents = agents_on(Backbone(Counted(), side=12))[:2] + agents_on(Backbone(other, side=12))[2:]
    result = cs.collaborate(agents, shared, crossed=25, rounds=2, method=cs.Consensus(warmup=1), progress=False)
    assert result.history["bytes_sent"].iloc[-1] == 2 * 4 * 3 * 65


def test_a_model_on_a_backbone_of_ones_own_goes_home_with_a_word_on_its_inputs(tmp_path):
    shared = images(40, seed=77)
    backbone = Backbone(Counted(), side=12)
    agents = agents_on(backbone)[:2]
    result = cs.collaborate(agents, shared, rounds=2, method=cs.Consensus(warmup=1), progress=False)
    model = cs.load_model(result.export(tmp_path / "model", "a"))
    np.testing.assert_allclose(model.predict(backbone(shared)), agents[0].predict(shared), atol=1e-5)
    assert "Backbone('Counted', side=12)" in (tmp_path / "model" / "README.md").read_text()


def test_a_stored_backbone_that_is_damaged_is_refused():
    for data in (b"", b"\x00" * 40, (2**60).to_bytes(8, "little") + b"{}"):
        with pytest.raises(cs.ConsilienceError, match=r"prepare-0.safetensors cannot be read"):
            stored_backbone(data, "prepare-0.safetensors")
