"""KT-pFL's weights over rounds: they go on from where they were, whoever is missing."""

import json

import numpy as np
import pytest

from consilience import Consensus
from consilience.core.distillation import knowledge_step
from consilience.methods.trust.ktpfl import KTpFL
from tests.methods.parrot import NAMES, Lossy, first_words, rounds_of


def names_in(memory) -> list[str]:
    return json.loads(bytes(memory["names"]))


def test_every_round_goes_one_step_further():
    rounds = rounds_of(Consensus(trust=KTpFL(step=0.2, rho=0.1), warmup=0), 3)
    c, f = np.full((4, 4), 0.25), first_words()
    for done in rounds:
        c = knowledge_step(c, f, 0.2, 0.1)
        np.testing.assert_allclose(done.record.trust, c, rtol=1e-5)
        f = np.stack([done.record.predictions[name] for name in NAMES])


def test_who_is_not_heard_keeps_its_weight_and_a_newcomer_has_an_equal_share():
    first, second, third = rounds_of(Consensus(trust=KTpFL(step=0.5), warmup=0), 3, Lossy({1: {"d"}, 2: {"a"}}))
    assert names_in(first.memory.common) == ["a", "b", "c"]
    before, after = first.memory.common["weights"], second.memory.common["weights"]
    assert names_in(second.memory.common) == ["a", "b", "c", "d"]
    np.testing.assert_allclose(after.sum(axis=1), 1)
    np.testing.assert_allclose(after[1:3, 0], before[1:, 0] * 3 / 4, rtol=1e-12)
    np.testing.assert_allclose(after[0, 3], 1 / 4)
    np.testing.assert_allclose(third.record.trust.sum(axis=1), 1)
    assert (third.record.trust > 0).all()


def test_values_are_refused_in_a_sentence():
    from consilience.base.errors import ConsilienceError
    from consilience.methods.trust.protocol import Context, apply_rule
    from consilience.tasks import task_named

    context = Context(task_named("regression"), ("a", "b"), np.arange(2), np.ones(2), 1)
    with pytest.raises(ConsilienceError, match="KTpFL compares probabilities, and regression has none"):
        apply_rule(KTpFL(), np.zeros((2, 3, 1)), context)
