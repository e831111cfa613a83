"""Agents that are told something else than the others: they believe from it, and nobody else notices."""

from dataclasses import replace

import numpy as np
import pytest

from consilience import Consensus, Entropy, Gate, Uniform
from consilience.extend import InMemory, Received, Start
from consilience.methods.trust.expguard import ExpGuard
from consilience.methods.trust.stratified import Stratified
from tests.methods.parrot import NAMES, OUTPUTS, SAMPLES, rounds_of

LIE = np.tile(np.eye(OUTPUTS, dtype=np.float32)[2], (SAMPLES, 1))
RULES = [Entropy(), Stratified(), ExpGuard(), Uniform()]


class Whispers:
    """In memory, but some agents are told other words of d, from some round on; or all are (`publicly`)."""

    roster = NAMES

    def __init__(self, victims: tuple[str, ...], start: int = 1, publicly: bool = False) -> None:
        self._within, self._victims, self._start, self._publicly = InMemory(NAMES), victims, start, publicly

    def gather(self, number: int, own_predictions: dict[str, np.ndarray]) -> Received:
        answer = self._within.gather(number, own_predictions)
        if number < self._start:
            return answer
        if self._publicly:
            return replace(answer, predictions=answer.predictions | {"d": LIE})
        told = {"d": LIE}
        return replace(answer, told=dict.fromkeys(self._victims, told))


@pytest.mark.parametrize("rule", RULES)
def test_a_victim_believes_what_it_was_told_and_the_others_are_not_touched(rule):
    method = Consensus(trust=rule, warmup=0)
    [plain], [lied] = rounds_of(method, 1), rounds_of(method, 1, Whispers((), publicly=True))
    [told] = rounds_of(method, 1, Whispers(("b",)))
    for name, row in zip(NAMES, range(4), strict=True):
        expected = lied if name == "b" else plain
        np.testing.assert_array_equal(told.record.trust[row], expected.record.trust[row])
        np.testing.assert_array_equal(told.record.predictions[name], expected.record.predictions[name])
    np.testing.assert_array_equal(told.record.received["d"], plain.record.received["d"])


@pytest.mark.parametrize("rule", [Uniform(), Stratified(), Gate(fewest=3)])
def test_duals_of_a_victim_are_those_of_what_it_was_told(rule):
    method = Consensus(trust=rule, warmup=0, duals=1.0, mean="geometric")
    plain, lied = rounds_of(method, 4), rounds_of(method, 4, Whispers((), publicly=True))
    told = rounds_of(method, 4, Whispers(NAMES))
    for one, other in zip(lied, told, strict=True):
        for name in NAMES:
            np.testing.assert_array_equal(one.record.predictions[name], other.record.predictions[name])
    [first, *_] = rounds_of(method, 1, Whispers(("b",)))
    for name in NAMES:
        expected = lied[0] if name == "b" else plain[0]
        np.testing.assert_array_equal(first.record.predictions[name], expected.record.predictions[name])
    assert set(first.memory.own["b"]) >= {f"deviations/{name}" for name in NAMES}
    assert not [key for key in first.memory.own["a"] if key.startswith("deviations/")]


@pytest.mark.parametrize("rule", [Uniform(), Gate(fewest=3)])
def test_duals_of_a_victim_go_on_from_a_checkpoint(rule):
    from tests.methods.parrot import parrots

    method, agents = Consensus(trust=rule, warmup=0, duals=1.0, mean="geometric"), parrots()
    whole = rounds_of(method, 4, Whispers(("a", "b"), start=2))
    first = rounds_of(method, 2, Whispers(("a", "b"), start=2), agents)
    rest = rounds_of(method, 4, Whispers(("a", "b"), start=2), agents, Start(4, 2, first[-1].memory))
    for one, other in zip(whole[2:], rest, strict=True):
        for name in NAMES:
            np.testing.assert_array_equal(one.record.predictions[name], other.record.predictions[name])


@pytest.mark.parametrize("schedule", ["dynamic", "every-2", "static"])
@pytest.mark.parametrize("rule", [Entropy(), ExpGuard()])
def test_if_all_are_told_the_same_it_is_as_if_it_had_been_published(rule, schedule):
    method = Consensus(trust=rule, warmup=0, schedule=schedule)
    lied = rounds_of(method, 5, Whispers((), publicly=True))
    told = rounds_of(method, 5, Whispers(NAMES))
    for one, other in zip(lied, told, strict=True):
        np.testing.assert_array_equal(one.record.trust, other.record.trust)
        for name in NAMES:
            np.testing.assert_array_equal(one.record.predictions[name], other.record.predictions[name])


@pytest.mark.parametrize("rule", [Entropy(), ExpGuard()])
def test_what_a_rule_keeps_for_a_victim_goes_on_from_a_checkpoint(rule):
    from tests.methods.parrot import parrots

    method, agents = Consensus(trust=rule, warmup=0), parrots()
    whole = rounds_of(method, 4, Whispers(("a", "b")))
    first = rounds_of(method, 2, Whispers(("a", "b")), agents)
    rest = rounds_of(method, 4, Whispers(("a", "b")), agents, Start(4, 2, first[-1].memory))
    for one, other in zip(whole[2:], rest, strict=True):
        np.testing.assert_array_equal(one.record.trust, other.record.trust)
