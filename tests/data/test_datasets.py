"""Datasets under their names: those that come with the package, and anyone's."""

import numpy as np
import pytest

from consilience import ConsilienceError
from consilience.data import datasets
from consilience.data.catalogue import CATALOGUE
from consilience.data.datasets import DATASETS, SIZES, Dataset, Request, Size, size_of
from consilience.data.loading import load
from consilience.data.scenario import Scenario
from consilience.extend import dataset

BUNDLED = {"digits": (1797, 1, 8, 8), "digit-properties": (1797, 1, 8, 8), "breast-cancer": (569, 30)}


@pytest.fixture
def registries(monkeypatch):
    """What a test registers is forgotten after it."""
    DATASETS.names()
    monkeypatch.setattr(DATASETS, "_found", dict(DATASETS._found))
    monkeypatch.setattr(datasets, "SIZES", dict(SIZES))


def test_the_names_are_those_of_the_documentation():
    assert DATASETS.names() == sorted(CATALOGUE)


@pytest.mark.parametrize(("name", "shape"), BUNDLED.items())
def test_bundled_datasets_are_finite_whole_and_labelled(name, shape):
    data = load(name)
    assert data.x.shape == shape
    assert data.x.dtype == np.float32
    assert np.isfinite(data.x).all()
    assert len(data.y) == len(data.x)
    assert data.groups is None
    assert data.group_names == ()
    if data.task == "classification":
        assert set(np.unique(data.y)) == set(range(len(data.classes)))


def test_digits_are_scaled_to_minus_one_to_one():
    from sklearn.datasets import load_digits

    data, raw = load("digits"), load_digits()
    assert (data.x.min(), data.x.max()) == (-1, 1)
    np.testing.assert_array_equal((data.x.reshape(1797, 64) + 1) * 8, raw.data)
    np.testing.assert_array_equal(data.y, raw.target)
    assert data.classes == tuple("0123456789")


def test_properties_of_digits_are_what_they_say():
    data, digits = load("digit-properties"), load("digits").y
    assert data.task == "multilabel"
    assert data.classes == ("even", "prime", "above four", "loop")
    for digit, labels in zip(digits.tolist(), data.y.tolist(), strict=True):
        prime = digit > 1 and all(digit % d for d in range(2, digit))
        assert labels == [digit % 2 == 0, prime, digit > 4, digit in (0, 6, 8, 9)]
    np.testing.assert_array_equal(data.x, load("digits").x)


def test_features_of_breast_cancer_are_standardised():
    data = load("breast-cancer")
    np.testing.assert_allclose(data.x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(data.x.std(axis=0), 1, atol=1e-5)
    assert data.classes == ("malignant", "benign")
    assert np.bincount(data.y).tolist() == [212, 357]


def test_the_polynomial_comes_divided_among_as_many_agents_as_asked_for():
    for request, agents in ((None, 3), (Request(agents=2), 2), (Request(agents=4, seed=3), 4)):
        scenario = load("polynomial", request)
        assert isinstance(scenario, Scenario)
        assert len(scenario.shares) == agents
    other = load("polynomial", Request(agents=4))
    assert other.fingerprint() != scenario.fingerprint()


def test_an_unknown_dataset_names_the_known_ones_and_a_near_one():
    with pytest.raises(
        ConsilienceError, match=r"unknown dataset 'imagenet21k'\. .*Known: adult, ag-news, breast-cancer, .*polynomial"
    ):
        load("imagenet21k")
    with pytest.raises(ConsilienceError, match=r"Did you mean 'digits'\?"):
        load("digit")


@pytest.mark.parametrize("limit", [5, 178])
def test_a_limit_keeps_the_first_of_each_class(limit):
    whole, some = load("digits"), load("digits", Request(limit=limit))
    kept, count = [], [0] * 10
    for number, label in enumerate(whole.y.tolist()):
        count[label] += 1
        if count[label] <= limit:
            kept.append(number)
    np.testing.assert_array_equal(some.x, whole.x[kept])
    np.testing.assert_array_equal(some.y, whole.y[kept])
    assert some.classes == whole.classes


def test_without_classes_a_limit_keeps_the_first(registries):
    whole, some = load("digit-properties"), load("digit-properties", Request(limit=7))
    np.testing.assert_array_equal(some.x, whole.x[:7])
    np.testing.assert_array_equal(some.y, whole.y[:7])
    assert (some.task, some.classes) == (whole.task, whole.classes)

    @dataset("measured")
    def measured(request):
        return Dataset(np.arange(8)[:, None], np.arange(8) / 7, (), np.arange(8) % 2, ("p", "q"), task="regression")

    some = load("measured", Request(limit=2))
    assert some.x[:, 0].tolist() == [0, 1, 2, 3]
    assert some.groups.tolist() == [0, 1, 0, 1]
    assert some.group_names == ("p", "q")


def test_a_limit_is_within_each_hospital(registries):
    @dataset("wards")
    def wards(request):
        y, groups = np.array([0, 0, 0, 1, 0, 0, 1]), np.array([0, 0, 0, 0, 1, 1, 1])
        return Dataset(np.arange(7)[:, None], y, ("a", "b"), groups, ("p", "q"))

    some = load("wards", Request(limit=1))
    assert some.x[:, 0].tolist() == [0, 3, 4, 6]
    assert some.y.tolist() == [0, 1, 0, 1]
    assert some.groups.tolist() == [0, 0, 1, 1]


def test_only_images_have_a_side():
    with pytest.raises(ConsilienceError, match=r"digits comes in one size only\. Leave out side"):
        load("digits", Request(side=16))


def test_a_dataset_that_knows_of_sizes_is_left_to_itself(registries):
    asked = []

    @dataset("sized", sizes=True)
    def sized(request):
        asked.append(request)
        return Dataset(np.zeros((6, 1)), np.zeros(6, int), ("a",))

    request = Request(limit=2, side=4, agents=3, seed=1)
    assert len(load("sized", request).y) == 6
    assert asked == [request]


def test_anyone_may_register_a_dataset_with_its_size(registries):
    @dataset("mine", Size(10, 2, 5))
    def mine(request):
        return Dataset(np.zeros((4, 5)), np.arange(4) % 2, ("a", "b"))

    assert "mine" in DATASETS.names()
    assert load("mine").x.shape == (4, 5)
    assert size_of("mine") == Size(10, 2, 5)
    assert mine(Request()).y.tolist() == [0, 1, 0, 1]


def test_a_dataset_of_unknown_size_is_taken_for_small(registries):
    @dataset("small")
    def small(request):
        raise AssertionError

    assert size_of("small") == size_of("nobody's") == Size(0, 0, 0)


@pytest.mark.parametrize("name", BUNDLED)
def test_the_sizes_that_were_told_are_true(name):
    data = load(name)
    parts = len(data.classes) if data.task == "classification" else 1
    assert size_of(name) == Size(len(data.y), parts, int(np.prod(data.x.shape[1:])))
