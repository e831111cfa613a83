"""Splits: nobody shares a sample, nothing is lost, wrong labels are all wrong."""

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.data.datasets import DATASETS, Dataset, load
from consilience.data.partition import dirichlet, iid
from consilience.data.scenario import polynomial, split

COUNTING = Dataset(np.arange(600, dtype=np.float32)[:, None], np.arange(600) % 4, tuple("abcd"))


def make(**changes):
    settings = {
        "agents": 6,
        "partition": "dirichlet",
        "alpha": 1.0,
        "target_fraction": 0.25,
        "test_fraction": 0.2,
        "shared_per_agent": 10,
        "low_quality": (),
        "seed": 0,
    }
    return split(COUNTING, **(settings | changes))


@pytest.mark.parametrize("partition", ["dirichlet", "iid"])
def test_every_sample_is_in_exactly_one_place(partition):
    scenario = make(partition=partition)
    parts = [scenario.shared, scenario.target_x]
    for share in scenario.shares.values():
        parts += [share.x, share.test_x]
    assert sorted(np.concatenate(parts)[:, 0]) == list(range(600))
    assert len(scenario.target_x) == 150
    assert len(scenario.shared) == 6 * 10
    np.testing.assert_array_equal(scenario.shared[:, 0] % 4, scenario.shared_y)


def test_every_agent_contributes_equally_to_the_shared_data():
    scenario = make()
    again = make(shared_per_agent=10, low_quality=(1,))
    np.testing.assert_array_equal(scenario.shared, again.shared)
    whole = make()
    for number, share in enumerate(whole.shares.values()):
        given = set(whole.shared[number * 10 : number * 10 + 10, 0])
        assert not given & set(share.x[:, 0])


def test_low_quality_agents_have_every_training_label_wrong_and_true_test_labels():
    scenario = make(low_quality=(1, 4))
    for name, share in scenario.shares.items():
        truth = share.x[:, 0].astype(int) % 4
        shift = (share.y - truth) % 4
        assert len(set(shift)) == 1
        assert (shift[0] != 0) == (name in ("1", "4"))
        np.testing.assert_array_equal(share.test_y, share.test_x[:, 0].astype(int) % 4)
    assert scenario.low_quality == ("1", "4")


def test_the_fingerprint_tells_scenarios_apart():
    assert make().fingerprint() == make().fingerprint()
    assert len({make(seed=seed).fingerprint() for seed in range(3)} | {make(low_quality=(0,)).fingerprint()}) == 4


def test_small_alpha_gives_uneven_classes():
    y = np.arange(3000) % 10

    def unevenness(alpha: float) -> float:
        parts = dirichlet(y, 10, alpha, np.random.default_rng(0))
        assert sorted(np.concatenate(parts)) == list(range(3000))
        counts = np.array([np.bincount(y[part], minlength=10) for part in parts])
        return float((counts / counts.sum(axis=1, keepdims=True)).std())

    assert unevenness(0.1) > 2 * unevenness(1.0) > 2 * unevenness(100.0)


def test_dirichlet_gives_no_more_to_those_who_have_enough():
    """Without the limit, ten agents and alpha 0.1 regularly leave one with over three times its share."""
    y = np.arange(2000) % 10
    for seed in range(20):
        sizes = [len(part) for part in dirichlet(y, 10, 0.1, np.random.default_rng(seed))]
        assert max(sizes) <= 200 + 200


def test_iid_parts_are_equal():
    assert {len(part) for part in iid(np.zeros(100), 5, np.random.default_rng(0))} == {20}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"agents": 60}, "cannot give 60 agents at least 15 each"),
        ({"agents": 60, "partition": "iid"}, "too few to share 10"),
    ],
)
def test_impossible_splits_are_refused(changes, says):
    with pytest.raises(ConsilienceError, match=says):
        make(**changes)


def test_a_split_that_starves_an_agent_is_refused():
    with pytest.raises(ConsilienceError, match="Raise alpha"):
        dirichlet(np.arange(100) % 2, 10, 0.01, np.random.default_rng(0), smallest=8)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_datasets_are_finite_and_labelled(name):
    data = load(name)
    assert np.isfinite(data.x).all()
    assert set(np.unique(data.y)) == set(range(len(data.classes)))


def test_unknown_dataset():
    with pytest.raises(ConsilienceError, match="Known: breast-cancer, digits"):
        load("mnist")


def test_the_polynomial_of_the_paper():
    scenario = polynomial(0)
    x = scenario.shared[:, 0]
    assert (x.min(), x.max(), len(x)) == (-4, 4, 50)
    np.testing.assert_allclose(scenario.shared_y[:, 0], 0.5 * x**3 + 0.3 * x**2 - 5 * x + 4, rtol=1e-4, atol=1e-4)
    means = [share.x.mean() for share in scenario.shares.values()]
    np.testing.assert_allclose(means, [-2, 0, 2], atol=0.5)
    noise = [share.y - (0.5 * share.x**3 + 0.3 * share.x**2 - 5 * share.x + 4) for share in scenario.shares.values()]
    assert 0.8 < np.std(noise) < 1.2
