"""Pseudo-labels that are matched with a prior of classes."""

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Uniform
from consilience.core.class_prior import match_class_prior
from tests.methods.parrot import OUTPUTS, first_words, parrots, rounds_of


def after_one_round(**options) -> np.ndarray:
    agents = parrots()
    rounds_of(Consensus(warmup=0, trust=Uniform(), **options), 1, agents=agents)
    return agents[0].says


def test_pseudo_labels_are_aligned_with_a_prior():
    mean = first_words().mean(axis=0)
    even = np.full(OUTPUTS, 1 / OUTPUTS)
    np.testing.assert_allclose(after_one_round(), mean, rtol=1e-5)
    np.testing.assert_allclose(after_one_round(prior="even"), match_class_prior(mean, even), rtol=1e-4)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_a_prior_is_for_classes(task):
    with pytest.raises(ConsilienceError, match=f"which is about classes; {task} has none"):
        rounds_of(Consensus(warmup=0, prior="even"), 1, agents=parrots(task))
