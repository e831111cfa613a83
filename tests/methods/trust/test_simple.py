"""The trust rules that come with the package, and how a settings file names them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Cosine, Entropy, Gaussian, Uniform
from consilience.base.options import Options, from_table, option, to_table
from consilience.extend import TRUST, Context
from consilience.methods.trust import trust_named
from consilience.methods.trust.simple import Centred, Default
from consilience.methods.trust.stratified import Stratified
from consilience.tasks import task_named
from tests.methods.parrot import NAMES, NOISE, SAMPLES, first_words, parrots, rounds_of


@dataclass(frozen=True)
class Chosen(Options):
    here: Any = option(Default(), "of a settings file", resolve=trust_named)


def trust_from(value: Any, where: str) -> Any:
    return from_table(Chosen, {"here": value}, "").here


def trust_table(rule: Any) -> dict[str, Any]:
    return to_table(Chosen(rule))["here"]


def context(task: str = "classification", rows: tuple[int, ...] = (0, 1, 2, 3)) -> Context:
    noise = [NOISE[name] if place in rows else np.nan for place, name in enumerate(NAMES)]
    return Context(task_named(task), NAMES, np.array(rows), np.array(noise), 1)


def weighted_cosine(weight) -> np.ndarray:
    """w_ij proportional to sum_x weight(f_i(x)) cos(f_i(x), f_j(x)), with plain loops."""
    f = first_words().astype(float)
    w = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            for s in range(SAMPLES):
                cosine = f[i, s] @ f[j, s] / np.linalg.norm(f[i, s]) / np.linalg.norm(f[j, s])
                w[i, j] += weight(f[i, s]) * cosine
        w[i] /= w[i].sum()
    return w


def entropy(p: np.ndarray) -> float:
    return -sum(value * np.log(value) for value in p)


@pytest.mark.parametrize(
    ("rule", "weight"),
    [
        (Cosine(), lambda p: 1.0),
        (Entropy(), lambda p: 1 / (entropy(p) + 1)),
        (Entropy(offset=0.0), lambda p: 1 / entropy(p)),
        (Entropy(offset=0.25, floor=1.0), lambda p: 1 / max(entropy(p) + 0.25, 1.0)),
    ],
)
def test_cosine_and_entropy_written_with_plain_loops(rule, weight):
    np.testing.assert_allclose(rule(first_words(), context()), weighted_cosine(weight), rtol=1e-5)
    [one] = rounds_of(Consensus(trust=rule, warmup=0), 1)
    np.testing.assert_allclose(one.record.trust, weighted_cosine(weight), rtol=1e-5)


def test_gaussian_with_plain_loops_knows_no_rows_of_agents_elsewhere():
    f = first_words("regression").astype(float)
    found = Gaussian()(f, context("regression", rows=(1, 3)))
    assert np.isnan(found[[0, 2]]).all()
    for i in (1, 3):
        row = [
            sum(np.exp(-np.mean((f[i, s] - f[j, s]) ** 2) / (2 * NOISE[NAMES[i]] ** 2)) for s in range(SAMPLES))
            for j in range(4)
        ]
        np.testing.assert_allclose(found[i], np.array(row) / sum(row), rtol=1e-6)


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_naive_trust_is_uniform_among_those_heard_whatever_the_task(task):
    np.testing.assert_array_equal(Uniform()(first_words(task)[:3], context(task)), np.full((3, 3), 1 / 3))
    [one] = rounds_of(Consensus(trust=Uniform(), warmup=0), 1, agents=parrots(task))
    np.testing.assert_array_equal(one.record.trust, np.full((4, 4), 0.25))
    for said in one.record.predictions.values():
        np.testing.assert_allclose(said, first_words(task).mean(axis=0), atol=1e-6)


def test_every_rule_is_known_by_its_name():
    known = {"centred": Centred, "cosine": Cosine, "default": Default, "entropy": Entropy, "gaussian": Gaussian}
    known |= {"stratified": Stratified, "uniform": Uniform}
    assert known.items() <= {name: TRUST.find(name) for name in TRUST.names()}.items()


@pytest.mark.parametrize(
    "rule", [Cosine(), Gaussian(), Uniform(), Entropy(), Entropy(0.25, 0.5), Default(), Stratified(Entropy(0.5))]
)
def test_a_rule_as_a_table_and_back_is_the_same(rule):
    assert trust_from(trust_table(rule), "method.trust") == rule


def test_what_a_settings_file_may_say():
    assert trust_from("cosine", "here") == Cosine()
    assert trust_from({"name": "entropy", "offset": 0}, "here") == Entropy(offset=0.0)
    assert trust_from("default", "here") == trust_from({}, "here") == Default()
    nested = {"name": "stratified", "base": {"name": "entropy", "offset": 0}, "sharpness": 2}
    assert trust_from(nested, "here") == Stratified(Entropy(offset=0.0), sharpness=2.0)
    assert trust_table(Default()) == {"name": "default"}
    assert trust_table(Entropy(0.25, 0.5)) == {"name": "entropy", "offset": 0.25, "floor": 0.5}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "entropie",
            "unknown trust rule 'entropie'. Did you mean 'entropy'? Known: ",
        ),
        ({"name": "entropy", "offsett": 1.0}, "here: unknown setting 'offsett'. Did you mean 'offset'?"),
        ({"name": "entropy", "offset": -0.5}, "here: offset is -0.5; it must be at least 0"),
        ({"name": "entropy", "floor": 0.0}, r"here: floor is 0.0; it must be above 0"),
        ({"name": "uniform", "offset": 0.5}, "here: unknown setting 'offset'"),
        ({"name": "default", "floor": 0.1}, "here: unknown setting 'floor'. There are none here."),
        (5, "here is 5; it must be a name, or a table with a name and options"),
    ],
)
def test_impossible_rules_are_refused(value, message):
    with pytest.raises(ConsilienceError, match=f"^{message.replace('?', '[?]')}"):
        trust_from(value, "here")


@pytest.fixture
def registered(monkeypatch):
    """Registers rules for one test."""
    monkeypatch.setattr(TRUST, "_found", dict(TRUST._all()))
    return TRUST.add


def test_functions_and_classes_without_options_can_be_registered(registered):
    @registered("mine")
    def mine(f):
        return np.eye(len(f))

    @registered("no-options")
    class Plain:
        def __call__(self, f, context):
            return np.eye(len(f))

    assert trust_from("mine", "here") is mine
    assert trust_table(mine) == {"name": "mine"}
    assert isinstance(trust_from("no-options", "here"), Plain)
    assert trust_table(Plain()) == {"name": "no-options"}
    with pytest.raises(ConsilienceError, match=r"here: unknown setting 'offset'\. There are none"):
        trust_from({"name": "mine", "offset": 1.0}, "here")


def test_a_function_that_is_not_registered_goes_by_its_own_name():
    def Mine(f):
        return np.eye(len(f))

    assert trust_table(Mine) == {"name": "Mine"}
