"""How samples fall among agents: lists of their numbers."""

import hashlib
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilience import ConsilienceError
from consilience.data.partitions import (
    Deal,
    as_it_came,
    balanced_quotas,
    dirichlet,
    equal_parts,
    first_of_each,
    rank_in_class,
)


def test_natural_parts_are_the_hospitals_even_those_without_samples():
    groups = np.array([2, 0, 2, 3, 0])
    assert [part.tolist() for part in as_it_came(Deal(groups, groups, 4, np.random.default_rng(0), groups=groups))] == [
        [1, 4],
        [],
        [0, 2],
        [3],
    ]


def slow_dirichlet(y, agents, alpha, draw):
    """One draw of the authors' code: class by class, and nothing more for those who hold n/N."""
    parts = [[] for _ in range(agents)]
    for label in sorted(set(y.tolist())):
        members = draw.permutation([i for i in range(len(y)) if y[i] == label]).tolist()
        share = draw.dirichlet([alpha] * agents).tolist()
        share = [s if len(part) < len(y) / agents else 0.0 for s, part in zip(share, parts, strict=True)]
        ends, total = [], 0.0
        for s in share[:-1]:
            total += s / sum(share)
            ends.append(int(total * len(members)))
        for part, start, end in zip(parts, [0, *ends], [*ends, len(members)], strict=True):
            part += members[start:end]
    return [sorted(part) for part in parts]


@pytest.mark.parametrize(("agents", "alpha"), [(3, 1.0), (5, 0.3), (4, 100.0)])
def test_dirichlet_is_the_split_of_the_authors_code(agents, alpha):
    y = np.random.default_rng(1).integers(6, size=300)
    parts = dirichlet(y, agents, alpha, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == slow_dirichlet(y, agents, alpha, np.random.default_rng(0))


def test_dirichlet_draws_again_until_everyone_has_enough():
    """With the first draw one agent would have fewer."""
    y = np.arange(300) % 5
    first = min(len(part) for part in dirichlet(y, 6, 0.3, np.random.default_rng(0)))
    again = dirichlet(y, 6, 0.3, np.random.default_rng(0), smallest=first + 5)
    assert min(len(part) for part in again) >= first + 5
    assert sorted(np.concatenate(again)) == list(range(300))
    same = dirichlet(y, 6, 0.3, np.random.default_rng(0), smallest=first)
    assert min(len(part) for part in same) == first


def test_everyone_can_have_exactly_the_smallest_number():
    """As many as there are is not too many."""
    parts = dirichlet(np.arange(12) % 3, 2, 1e4, np.random.default_rng(0), smallest=6)
    assert [len(part) for part in parts] == [6, 6]


def test_a_class_goes_to_those_with_room_where_a_tiny_alpha_leaves_them_nothing():
    """Proportions of Dirichlet(1e-4) are all nil but one; that one may have no room."""
    y = np.repeat([0, 1, 2], [40, 10, 10])
    for seed in range(50):
        parts = dirichlet(y, 2, 1e-4, np.random.default_rng(seed), smallest=0)
        assert sorted(np.concatenate(parts)) == list(range(60))
        assert sorted(len(part) for part in parts) == [20, 40]


def test_who_holds_exactly_its_share_gets_no_more():
    """Dirichlet(1e-4) gives each class to one agent; the second class must go to the other."""
    for seed in range(20):
        parts = dirichlet(np.repeat([0, 1], [30, 30]), 2, 1e-4, np.random.default_rng(seed), smallest=0)
        assert sorted(part.tolist() for part in parts) == [list(range(30)), list(range(30, 60))]


def test_one_sample_is_enough_unless_more_are_asked_for():
    sizes = [
        min(len(part) for part in dirichlet(np.arange(20) % 2, 4, 0.3, np.random.default_rng(seed)))
        for seed in range(30)
    ]
    assert min(sizes) == 1


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


def test_a_split_that_starves_an_agent_is_refused():
    with pytest.raises(
        ConsilienceError, match=r"no Dirichlet\(0.01\) split of 100 samples gave each of 10 .*Raise alpha"
    ):
        dirichlet(np.arange(100) % 2, 10, 0.01, np.random.default_rng(0), smallest=8)
    with pytest.raises(ConsilienceError, match=r"100 samples cannot give 10 agents at least 11 each"):
        dirichlet(np.arange(100) % 2, 10, 1.0, np.random.default_rng(0), smallest=11)


def test_iid_parts_are_equal_and_random():
    parts = equal_parts(Deal(np.zeros(0), np.zeros(102), 5, np.random.default_rng(0)))
    assert [len(part) for part in parts] == [21, 21, 20, 20, 20]
    assert sorted(np.concatenate(parts)) == list(range(102))
    assert all(part.tolist() == sorted(part) for part in parts)
    assert all(part.min() < 20 and part.max() > 80 for part in parts)


def test_first_of_each_class_within_each_hospital():
    y = np.array([0, 0, 0, 1, 0, 0, 1])
    groups = np.array([0, 0, 0, 0, 1, 1, 1])
    assert first_of_each(np.stack([y, groups]), 2).tolist() == [0, 1, 3, 4, 5, 6]
    assert first_of_each(y, 99).tolist() == list(range(7))


@given(st.lists(st.sampled_from([7, 5, -1]), min_size=1, max_size=20))
def test_the_place_of_a_sample_is_how_many_of_its_class_come_before_it(y):
    assert rank_in_class(np.array(y)).tolist() == [y[:number].count(label) for number, label in enumerate(y)]


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


def test_only_an_agent_that_gives_a_class_can_give_another_instead():
    """Agent 0 has none of class 0 to take back; agent 1 has one of class 1 left."""
    counts = np.array([[0, 4], [5, 1], [5, 0]])
    assert balanced_quotas(counts, 2).tolist() == [[0, 2], [1, 1], [2, 0]]


def test_a_chain_of_agents_is_found():
    """Agent 0 can leave class 0 only for class 1, and only agent 1 can go on from there to class 2."""
    counts = np.array([[4, 4, 0], [0, 4, 4], [4, 0, 0]])
    assert balanced_quotas(counts, 4).sum(axis=0).tolist() == [4, 4, 4]


def test_even_shared_data_are_found_at_the_size_of_cifar100():
    y = np.arange(45_000) % 100
    parts = dirichlet(y, 10, 1.0, np.random.default_rng(0))
    counts = np.array([np.bincount(y[part], minlength=100) for part in parts])
    assert set(balanced_quotas(counts, 300).sum(axis=0)) == {30}


def test_contributions_are_the_same_on_every_machine_and_in_every_version():
    """Among a hundred classes many are equally frequent: which come first must not depend on how they are sorted."""
    y = np.arange(6000) % 100
    parts = dirichlet(y, 10, 1.0, np.random.default_rng(0))
    counts = np.array([np.bincount(y[part], minlength=100) for part in parts])
    digest = hashlib.sha256(balanced_quotas(counts, 130).astype("<i8").tobytes()).hexdigest()
    assert digest == "e797c97fb1be1486e27463c40ff435af532c7064dc72bed6636c59e6898e0952"
