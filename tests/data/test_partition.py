"""Parts by hospital, the first of each class, and shared data with even classes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilience import ConsilienceError
from consilience.data.datasets import Dataset
from consilience.data.partition import balanced_quotas, dirichlet, first_of_each, natural
from consilience.data.scenario import split


def test_natural_parts_are_the_hospitals():
    groups = np.array([2, 0, 2, 1, 0])
    assert [part.tolist() for part in natural(groups)] == [[1, 4], [3], [0, 2]]


def test_first_of_each_class_within_each_hospital():
    y = np.array([0, 0, 0, 1, 0, 0, 1])
    groups = np.array([0, 0, 0, 0, 1, 1, 1])
    assert first_of_each(np.stack([y, groups]), 2).tolist() == [0, 1, 3, 4, 5, 6]
    assert first_of_each(y, 99).tolist() == list(range(7))


def best_by_trying_all(counts: np.ndarray, each: int) -> int:
    """The smallest sum of squared class totals over every choice that the agents have."""
    choices = [
        [np.array(one) for one in product(*(range(n + 1) for n in row)) if sum(one) == each] for row in counts.tolist()
    ]
    return min(int((np.sum(pick, axis=0) ** 2).sum()) for pick in product(*choices))


@given(
    st.integers(1, 3).flatmap(
        lambda c: st.lists(st.lists(st.integers(0, 3), min_size=c, max_size=c), min_size=1, max_size=3)
    ),
    st.integers(1, 4),
)
def test_no_choice_of_contributions_is_more_even(rows, each):
    counts = np.array([row for row in rows if sum(row) >= each])
    if not len(counts):
        return
    quotas = balanced_quotas(counts, each)
    assert (quotas >= 0).all()
    assert (quotas <= counts).all()
    assert (quotas.sum(axis=1) == each).all()
    assert (quotas.sum(axis=0) ** 2).sum() == best_by_trying_all(counts, each)


def test_a_chain_of_agents_is_found():
    """Agent 0 can leave class 0 only for class 1, and only agent 1 can go on from there to class 2."""
    counts = np.array([[4, 4, 0], [0, 4, 4], [4, 0, 0]])
    assert balanced_quotas(counts, 4).sum(axis=0).tolist() == [4, 4, 4]


DATA = Dataset(np.arange(6000, dtype=np.float32)[:, None], np.arange(6000) % 10, tuple("0123456789"))
SPLIT = {
    "agents": 10,
    "partition": "dirichlet",
    "alpha": 1.0,
    "target_fraction": 0.25,
    "test_fraction": 0.2,
    "low_quality": (),
    "seed": 0,
}


def test_shared_data_as_in_the_paper_have_every_class_equally_and_equally_many_of_each_agent():
    """5 % of the whole, as for CIFAR-10; a plain draw is uneven on the same split."""
    scenario = split(DATA, **SPLIT, shared_per_agent=30, shared_balanced=True)
    assert np.bincount(scenario.shared_y).tolist() == [30] * 10
    parts = [scenario.shared, scenario.target_x]
    for share in scenario.shares.values():
        parts += [share.x, share.test_x]
    assert sorted(np.concatenate(parts)[:, 0]) == list(range(6000))
    plain = split(DATA, **SPLIT, shared_per_agent=30)
    assert np.bincount(plain.shared_y, minlength=10).std() > 1
    np.testing.assert_array_equal(plain.target_x, scenario.target_x)


def test_agents_of_a_natural_split_are_hospitals_and_nobody_elses_patients():
    groups = np.repeat([0, 1, 2], [100, 60, 40])
    data = Dataset(np.arange(200, dtype=np.float32)[:, None], np.arange(200) % 2, ("a", "b"), groups, ("x", "y", "z"))
    settings = SPLIT | {"agents": 3, "partition": "natural", "low_quality": (1,)}
    scenario = split(data, **settings, shared_per_agent=5)
    assert tuple(scenario.shares) == ("x", "y", "z")
    assert scenario.low_quality == ("y",)
    for number, share in enumerate(scenario.shares.values()):
        own = np.concatenate([share.x, share.test_x, scenario.shared[5 * number : 5 * number + 5]])[:, 0].astype(int)
        assert set(groups[own]) == {number}


@pytest.mark.parametrize(
    ("groups", "says"), [(None, "does not say where"), (np.arange(6000) % 3, "comes from 3: x, y, z. Set agents=3")]
)
def test_a_natural_split_that_cannot_be_is_refused(groups, says):
    data = Dataset(DATA.x, DATA.y, DATA.classes, groups, () if groups is None else ("x", "y", "z"))
    with pytest.raises(ConsilienceError, match=says):
        split(data, **(SPLIT | {"partition": "natural"}), shared_per_agent=5)


def test_even_shared_data_are_found_at_the_size_of_cifar100():
    y = np.arange(45_000) % 100
    parts = dirichlet(y, 10, 1.0, np.random.default_rng(0))
    counts = np.array([np.bincount(y[part], minlength=100) for part in parts])
    assert set(balanced_quotas(counts, 300).sum(axis=0)) == {30}
