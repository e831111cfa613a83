"""Splits: nobody shares a sample, nothing is lost, wrong labels are all wrong, and the numbers do not move."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from consilience import ConsilienceError
from consilience.data.datasets import Dataset
from consilience.data.options import Data
from consilience.data.scenario import Scenario, shift_labels, split

COUNTING = Dataset(np.arange(600, dtype=np.float32)[:, None], np.arange(600) % 4, tuple("abcd"))
HOSPITALS = replace(COUNTING, groups=np.arange(600) % 3, group_names=("x", "y", "z"))
LARGE = Dataset(np.arange(6000, dtype=np.float32)[:, None], np.arange(6000) % 10, tuple("0123456789"))


def make(data=COUNTING, agents=6, seed=0, **changes) -> Scenario:
    return split(data, Data(**({"shared_per_agent": 10} | changes)), agents, seed)


def samples(x) -> list[int]:
    """The numbers of the samples in a part of COUNTING or LARGE."""
    return x[:, 0].astype(int).tolist()


def everything(scenario) -> list[int]:
    parts = [scenario.shared, scenario.target_x]
    for share in scenario.shares.values():
        parts += [share.x, share.test_x]
    return samples(np.concatenate(parts))


@pytest.mark.parametrize("changes", [{}, {"partition": "iid"}, {"shared_balanced": True}, {"low_quality": (0, 5)}])
def test_every_sample_is_in_exactly_one_place_and_keeps_its_label(changes):
    scenario = make(**changes)
    assert sorted(everything(scenario)) == list(range(600))
    assert tuple(scenario.shares) == ("0", "1", "2", "3", "4", "5")
    truth = [(scenario.shared, scenario.shared_y), (scenario.target_x, scenario.target_y)]
    truth += [(share.test_x, share.test_y) for share in scenario.shares.values()]
    truth += [(share.x, share.y) for name, share in scenario.shares.items() if name not in scenario.low_quality]
    for x, y in truth:
        assert y.tolist() == [number % 4 for number in samples(x)]


@pytest.mark.parametrize(
    ("changes", "target", "given", "test_fraction"),
    [
        ({}, 150, 10, 0.2),
        ({"target_fraction": 0.1, "shared_per_agent": 3, "test_fraction": 0.5}, 60, 3, 0.5),
        ({"partition": "iid", "target_fraction": 0.4}, 240, 10, 0.2),
    ],
)
def test_the_sizes_are_the_fractions_that_were_asked_for(changes, target, given, test_fraction):
    scenario = make(**changes)
    assert len(scenario.target_x) == target
    assert len(scenario.shared) == 6 * given
    left = 0
    for share in scenario.shares.values():
        own = len(share.x) + len(share.test_x)
        assert len(share.test_x) == round(test_fraction * own)
        assert len(share.y) == len(share.x)
        left += own + given
    assert left == 600 - target


def test_every_agent_contributes_equally_to_the_shared_data_from_its_own():
    """In a natural split, where one sees whose a sample is."""
    scenario = make(HOSPITALS, agents=3, partition="natural")
    for number, share in enumerate(scenario.shares.values()):
        own = samples(share.x) + samples(share.test_x) + samples(scenario.shared[10 * number : 10 * number + 10])
        assert {sample % 3 for sample in own} == {number}


def test_what_an_agent_gives_and_tests_on_is_drawn_at_random():
    """Samples are numbered in order: the first ones of an agent's are not those that it gives."""
    scenario = make(HOSPITALS, agents=3, partition="natural")
    for number, share in enumerate(scenario.shares.values()):
        given = samples(scenario.shared[10 * number : 10 * number + 10])
        assert min(given) < 200
        assert max(given) > 400
        assert min(samples(share.test_x)) < 200
        assert max(samples(share.test_x)) > 400
    assert min(samples(scenario.target_x)) < 100
    assert max(samples(scenario.target_x)) > 500


def slow_shift(y, shift, classes):
    return [(label + shift) % classes for label in y]


def test_low_quality_agents_have_shifted_training_labels_and_true_test_labels():
    scenario = make(low_quality=(1, 4))
    assert scenario.low_quality == ("1", "4")
    for name, share in scenario.shares.items():
        truth = [number % 4 for number in samples(share.x)]
        shifts = [shift for shift in range(4) if share.y.tolist() == slow_shift(truth, shift, 4)]
        assert len(shifts) == 1
        assert (shifts != [0]) == (name in ("1", "4"))


def test_a_low_quality_agent_changes_nothing_but_its_own_labels():
    plain, low = make(), make(low_quality=(1,))
    assert everything(plain) == everything(low)
    for name in plain.shares:
        assert (plain.shares[name].y.tolist() == low.shares[name].y.tolist()) == (name != "1")


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_labels_are_shifted_by_any_number_but_a_whole_turn(classes):
    y = np.arange(30) % classes
    found = set()
    for seed in range(100):
        shifted = shift_labels(y, classes, np.random.default_rng(seed)).tolist()
        (shift,) = [s for s in range(classes) if shifted == slow_shift(y.tolist(), s, classes)]
        found.add(shift)
    assert found == set(range(1, classes))


@pytest.mark.parametrize(
    ("scenario", "known"),
    [
        (lambda: make(), "75b0ddfe85bafcc9028f1697bb131ae01492bc991bec38cf2cfd820e5bea32a8"),
        (lambda: make(partition="iid"), "7657fe7034ef090ba213d5bfbb2157d4c39382a2b91c65f153d792f54239883e"),
        (lambda: make(low_quality=(1, 4)), "b91978431c3666e35a8faf43b5ffaae7fc4b926651817c3e8313ccd5227c35c1"),
        (lambda: make(shared_balanced=True), "205a9c9281f7c17d869b1a045eaddd0b38e08d53bb76874ecc2e7c2d47392216"),
        (
            lambda: make(HOSPITALS, 3, 5, partition="natural"),
            "9fe14cd81f323565c2332f09c66508449b7b2f2b5e1697033c80a7f0de9b4096",
        ),
    ],
    ids=["dirichlet", "iid", "low quality", "balanced", "natural"],
)
def test_a_seed_gives_the_same_split_on_every_machine_and_in_every_version(scenario, known):
    """Every published number depends on these."""
    assert scenario().fingerprint() == known


def test_a_seed_gives_the_same_wrong_labels_in_every_version():
    scenario = make(LARGE, low_quality=(0, 1, 2, 3, 4, 5))
    shifts = [int((share.y[0] - share.x[0, 0]) % 10) for share in scenario.shares.values()]
    assert shifts == [9, 4, 9, 2, 8, 3]


def test_the_fingerprint_tells_scenarios_apart():
    assert make().fingerprint() == make().fingerprint()
    assert len({make(seed=seed).fingerprint() for seed in range(3)} | {make(low_quality=(0,)).fingerprint()}) == 4


@pytest.mark.parametrize("part", ["shared", "shared_y", "target_x", "target_y"])
def test_the_fingerprint_sees_a_change_of_any_value_type_or_order(part):
    scenario = make()
    known, array = scenario.fingerprint(), getattr(scenario, part)
    changed = array.copy()
    changed[0] += 1
    for other in (changed, array[::-1], array.astype(np.float16), array.reshape(-1, 2)):
        assert replace(scenario, **{part: other}).fingerprint() != known
    assert replace(scenario, **{part: np.asfortranarray(array)}).fingerprint() == known


@pytest.mark.parametrize("part", ["x", "y", "test_x", "test_y"])
def test_the_fingerprint_sees_every_agents_data(part):
    scenario = make()
    for name, share in scenario.shares.items():
        changed = getattr(share, part).copy()
        changed[-1] += 1
        shares = scenario.shares | {name: replace(share, **{part: changed})}
        assert replace(scenario, shares=shares).fingerprint() != scenario.fingerprint()


def test_shared_data_can_have_every_class_and_every_agent_equally():
    """5 % of the whole, as for CIFAR-10; a plain draw is uneven on the same split."""
    scenario = make(LARGE, 10, shared_per_agent=30, shared_balanced=True)
    assert np.bincount(scenario.shared_y).tolist() == [30] * 10
    assert sorted(everything(scenario)) == list(range(6000))
    plain = make(LARGE, 10, shared_per_agent=30)
    assert np.bincount(plain.shared_y, minlength=10).std() > 1
    np.testing.assert_array_equal(plain.target_x, scenario.target_x)


def test_balanced_shared_data_come_from_the_same_agents_as_without():
    plain, even = make(), make(shared_balanced=True)
    for number, name in enumerate(plain.shares):
        held = []
        for scenario in (plain, even):
            share, given = scenario.shares[name], scenario.shared[10 * number : 10 * number + 10]
            held.append(sorted(samples(share.x) + samples(share.test_x) + samples(given)))
        assert held[0] == held[1]


def test_agents_of_a_natural_split_are_hospitals_by_name():
    scenario = make(HOSPITALS, agents=3, partition="natural", low_quality=(1,))
    assert tuple(scenario.shares) == ("x", "y", "z")
    assert scenario.low_quality == ("y",)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (COUNTING, r"does not say where its samples come from\. Use partition=dirichlet or iid"),
        (HOSPITALS, r"agents is 6, but the dataset comes from 3: x, y, z\. Set agents=3"),
    ],
)
def test_a_natural_split_that_cannot_be_is_refused(data, says):
    with pytest.raises(ConsilienceError, match=says):
        make(data, partition="natural")


def test_a_hospital_without_samples_is_named():
    groups = np.where(np.arange(600) == 7, 1, 2 * (np.arange(600) % 2))
    data = replace(HOSPITALS, groups=groups)
    with pytest.raises(ConsilienceError, match=r"agent 'y' has \d samples, too few to share 10 and keep 5"):
        make(data, agents=3, partition="natural")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"agents": 60}, r"450 samples cannot give 60 agents at least 15 each\. Use fewer agents or more samples"),
        ({"agents": 60, "partition": "iid"}, r"agent '0' has 8 samples, too few to share 10 and keep 5\. Lower"),
    ],
)
def test_impossible_splits_are_refused(changes, says):
    with pytest.raises(ConsilienceError, match=says):
        make(**changes)


def test_data_too_few_for_two_agents_say_how_many_are_needed():
    few = replace(COUNTING, x=COUNTING.x[:20], y=COUNTING.y[:20])
    with pytest.raises(
        ConsilienceError, match=r"have 20 samples, of which 15 are .* Two agents need 30: .* Add samples"
    ):
        make(few, agents=2, partition="iid")


@pytest.mark.parametrize(("agents", "possible"), [(30, True), (31, False)])
def test_fifteen_samples_are_enough_to_share_ten(agents, possible):
    if possible:
        assert {len(s.x) + len(s.test_x) for s in make(agents=agents, partition="iid").shares.values()} == {5}
    else:
        with pytest.raises(ConsilienceError, match="too few to share 10"):
            make(agents=agents, partition="iid")


@pytest.mark.parametrize("task", ["multilabel", "regression"])
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, "partition=dirichlet"),
        ({"partition": "iid", "shared_balanced": True}, "shared_balanced"),
        ({"partition": "iid", "low_quality": (1,)}, "low_quality"),
    ],
)
def test_what_goes_by_class_is_refused_where_there_are_none(task, changes, what):
    y = np.stack([COUNTING.y % 2, COUNTING.y > 1], axis=1)
    with pytest.raises(
        ConsilienceError, match=rf"^{what} goes by the class of a sample, and {task} has none\. Use part"
    ):
        make(replace(COUNTING, y=y, task=task), **changes)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_other_tasks_are_split_evenly(task):
    """The rows of a table of labels stay with their samples."""
    y = np.stack([np.arange(600) % 2, np.arange(600) % 3 == 0], axis=1)
    scenario = make(replace(COUNTING, y=y, task=task), partition="iid")
    assert scenario.task == task
    assert sorted(everything(scenario)) == list(range(600))
    for share in scenario.shares.values():
        np.testing.assert_array_equal(share.y, y[samples(share.x)])
    np.testing.assert_array_equal(scenario.shared_y, y[samples(scenario.shared)])
    np.testing.assert_array_equal(scenario.target_y, y[samples(scenario.target_x)])
    assert scenario.low_quality == ()


def test_concept_shift_swaps_two_classes_in_training_and_test_data():
    scenario = make(concept_shift=(1, 4))
    swaps = {}
    for name, share in scenario.shares.items():
        truth = [np.array(samples(x)) % 4 for x in (share.x, share.test_x)]
        pairs = {pair for t, y in zip(truth, (share.y, share.test_y), strict=True) for pair in zip(t, y, strict=True)}
        swaps[name] = {(int(a), int(b)) for a, b in pairs if a != b}
    assert {name for name, swap in swaps.items() if swap} == {"1", "4"}
    for name in ("1", "4"):
        assert len(swaps[name]) == 2 and {(b, a) for a, b in swaps[name]} == swaps[name]
    assert scenario.target_y.tolist() == [number % 4 for number in samples(scenario.target_x)]
    assert scenario.shared_y.tolist() == [number % 4 for number in samples(scenario.shared)]
    with pytest.raises(ConsilienceError, match="shift=features"):
        make(replace(COUNTING, task="regression", y=COUNTING.y[:, None].astype(float)), concept_shift=(0,))


def test_moved_features_are_moved_alike_in_training_and_test_data_alone():
    draw = np.random.default_rng(0)
    data = replace(COUNTING, x=draw.normal(5, [1, 10], (len(COUNTING.y), 2)).astype(np.float32))
    before, after = make(data), make(data, concept_shift=(1, 4), shift="features")
    offsets = {}
    for name, share in after.shares.items():
        old = before.shares[name]
        np.testing.assert_array_equal([*share.y, *share.test_y], [*old.y, *old.test_y])
        moved = np.concatenate([share.x - old.x, share.test_x - old.test_x])
        np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-4)
        offsets[name] = moved[0]
    assert {name for name, offset in offsets.items() if offset.any()} == {"1", "4"}
    assert not np.allclose(offsets["1"], offsets["4"])
    for part in ("shared", "target_x"):
        np.testing.assert_array_equal(getattr(after, part), getattr(before, part))


def test_moved_images_are_brighter_or_darker_and_stay_bytes():
    images = np.random.default_rng(0).integers(0, 256, (len(COUNTING.y), 4, 4, 3), dtype=np.uint8)
    scenario = make(replace(COUNTING, x=images), concept_shift=(2,), shift="features")
    plain = make(replace(COUNTING, x=images))
    one, other = scenario.shares["2"].x, plain.shares["2"].x
    changed = one[(one > 0) & (one < 255)].astype(int) - other[(one > 0) & (one < 255)]
    assert one.dtype == np.uint8 and changed.max() - changed.min() <= 1 and changed.any()


def test_features_of_a_task_without_classes_are_moved_and_those_of_tables_refused():
    values = replace(COUNTING, task="regression", y=COUNTING.y[:, None].astype(float))
    moved = make(values, concept_shift=(0,), shift="features", partition="iid").shares["0"]
    assert not np.array_equal(moved.x, make(values, partition="iid").shares["0"].x)
    table = replace(COUNTING, x=pd.DataFrame({"a": np.arange(len(COUNTING.y))}))
    with pytest.raises(ConsilienceError, match="shift=labels"):
        make(table, concept_shift=(0,), shift="features")
