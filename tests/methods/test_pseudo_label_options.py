"""Options of consensus that change pseudo-labels and their weight."""

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Uniform
from consilience.core.balance import aligned
from tests.methods.parrot import NAMES, OUTPUTS, SAMPLES, first_words, parrots, rounds_of


def after_one_round(**options) -> np.ndarray:
    agents = parrots()
    rounds_of(Consensus(warmup=0, trust=Uniform(), **options), 1, agents=agents)
    return agents[0].says


def test_pseudo_labels_are_aligned_with_a_prior():
    mean = first_words().mean(axis=0)
    even = np.full(OUTPUTS, 1 / OUTPUTS)
    np.testing.assert_allclose(after_one_round(), mean, rtol=1e-5)
    np.testing.assert_allclose(after_one_round(prior="even"), aligned(mean, even), rtol=1e-4)


def test_lambda_grows_in_even_steps():
    agents = parrots()
    rounds_of(Consensus(warmup=1, lam=2.0, ramp=4), 6, agents=agents)
    assert [lam for lam, _ in agents[0].trained] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.0]


def test_what_is_predicted_for_peers_is_counted():
    rounds = rounds_of(Consensus(warmup=1), 3)
    assert [done.record.losses[NAMES[0]].forward for done in rounds] == [0, SAMPLES, SAMPLES]


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_a_prior_is_for_classes(task):
    with pytest.raises(ConsilienceError, match=f"which is about classes; {task} has none"):
        rounds_of(Consensus(warmup=0, prior="even"), 1, agents=parrots(task))
