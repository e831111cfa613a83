"""Partitions by name: everyone's samples together are all samples, and each makes agents differ in its own way."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.data.options import Data
from consilience.data.partitions import PARTITIONS, Deal, along_main_direction
from consilience.settings.presets import read_settings
from consilience.settings.wiring import build_scenario

AGENTS = 5
Y = np.repeat(np.arange(10), 40)
X = np.random.default_rng(3).normal(size=(len(Y), 4)) * [5, 1, 1, 1]


def dealt(name: str, seed: int = 0, **more) -> list[np.ndarray]:
    groups = np.arange(len(Y)) % AGENTS
    deal = Deal(X, Y, AGENTS, np.random.default_rng(seed), groups=groups, **more)
    return PARTITIONS.find(name)(deal)


@pytest.mark.parametrize("name", PARTITIONS.names())
def test_every_sample_falls_to_one_agent_and_the_same_seed_deals_the_same(name):
    parts = dealt(name)
    assert len(parts) == AGENTS
    assert sorted(np.concatenate(parts)) == list(range(len(Y)))
    for one, two in zip(parts, dealt(name), strict=True):
        np.testing.assert_array_equal(one, two)


def test_quantity_deals_unequal_numbers_of_the_same_kind():
    sizes = np.array([len(part) for part in dealt("quantity", alpha=0.5, smallest=10)])
    assert sizes.max() > 3 * sizes.min() >= 30
    large = dealt("quantity", alpha=0.5, smallest=10)[sizes.argmax()]
    shares = np.bincount(Y[large], minlength=10) / len(large)
    assert np.abs(shares - 0.1).max() < 0.05, "what an agent has looks like the whole"
    equal = [len(part) for part in dealt("quantity", alpha=1e6)]
    assert max(equal) - min(equal) <= 2


def test_shards_give_every_agent_few_classes_and_equally_much():
    for part in dealt("shards", shards=2):
        assert len(part) == len(Y) // AGENTS
        assert len(np.unique(Y[part])) <= 2
    assert any(len(np.unique(Y[part])) > 2 for part in dealt("shards", shards=4))


def test_feature_deals_regions_of_the_inputs_and_no_classes():
    """With tiny alpha an agent's samples lie close together along the first direction, where inputs vary most."""
    parts = dealt("feature", alpha=0.01)
    along = along_main_direction(X)
    assert abs(np.corrcoef(along, X[:, 0])[0, 1]) > 0.99
    within = np.mean([along[part].std() for part in parts])
    assert within < 0.5 * along.std()
    counts = np.array([np.bincount(Y[part], minlength=10) / len(part) for part in parts])
    assert counts.max() < 0.3
    mixed = dealt("feature", alpha=1e6)
    assert np.mean([along[part].std() for part in mixed]) > 0.9 * along.std()


def test_feature_by_hand():
    """The direction of largest variance, as an eigenvector of the covariance."""
    values, vectors = np.linalg.eigh(np.cov(X.T))
    by_hand = (X - X.mean(axis=0)) @ vectors[:, values.argmax()]
    found = along_main_direction(X)
    np.testing.assert_allclose(np.abs(found), np.abs(by_hand), atol=1e-9)


def test_the_picture_in_the_documents_is_that_of_the_code():
    """If it is not: python docs/partitions.py."""
    docs = Path(__file__).parents[2] / "docs"
    assert (docs / "partitions.svg").read_text() == runpy.run_path(str(docs / "partitions.py"))["drawing"]()


def test_too_small_shares_are_refused():
    with pytest.raises(ConsilienceError, match=r"no Dirichlet\(0.01\) sizes of 400 samples gave each of 5 agents"):
        dealt("quantity", alpha=0.01, smallest=70)
    with pytest.raises(ConsilienceError, match="cannot be cut into 500 shards"):
        dealt("shards", shards=100)


def test_an_unknown_partition_is_refused_with_the_settings():
    with pytest.raises(ConsilienceError, match=r"unknown partition 'shard'. Did you mean 'shards'\?"):
        Data(partition="shard")


@pytest.mark.parametrize("name", ["quantity", "shards", "feature"])
def test_experiments_take_them_by_name(name):
    settings = read_settings("digits", {"partition": name, "agents.count": 4, "low_quality": []})
    scenario = build_scenario(settings)
    assert list(scenario.shares) == ["0", "1", "2", "3"]
    held = sum(len(share.y) + len(share.test_y) for share in scenario.shares.values()) + len(scenario.shared)
    assert held + len(scenario.target_y) == 1797


def test_partitions_that_need_classes_say_so():
    settings = read_settings("digits", {"dataset": "digit-properties", "partition": "shards", "low_quality": []})
    with pytest.raises(ConsilienceError, match="partition=shards goes by the class of a sample"):
        build_scenario(settings)
    settings = read_settings("digits", {"dataset": "digit-properties", "partition": "feature", "low_quality": []})
    assert len(build_scenario(settings).shares) == 10
