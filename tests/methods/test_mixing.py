"""Pseudo-labels: the mean of predictions, and samples as weights."""

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Paper, Sparse, Stratified, Uniform
from consilience.core.labels import geometric_labels
from consilience.extend import InMemory
from consilience.methods.trust.labels import Vote
from tests.methods.parrot import NAMES, first_words, parrots, rounds_of


@pytest.mark.parametrize("task", ["classification", "multilabel"])
@pytest.mark.parametrize("trust", [Uniform(), Stratified(), Paper()])
def test_the_geometric_mean_is_that_of_logits(task, trust):
    agents, words = parrots(task), first_words(task)
    [done] = rounds_of(Consensus(warmup=0, trust=trust, mean="geometric"), 1, agents=agents)
    if not isinstance(trust, Stratified):
        expected = geometric_labels(done.record.trust, words, agents[0].task.scale)
        np.testing.assert_allclose([agent.says for agent in agents], expected, atol=1e-5)
    low, high = words.min(axis=0), words.max(axis=0)
    if task == "multilabel":
        assert all(((agent.says >= low - 1e-5) & (agent.says <= high + 1e-5)).all() for agent in agents)
    else:
        np.testing.assert_allclose([agent.says.sum(axis=1) for agent in agents], 1, rtol=1e-5)


def test_the_geometric_mean_is_for_probabilities():
    with pytest.raises(ConsilienceError, match="for probabilities; regression has none"):
        rounds_of(Consensus(warmup=0, mean="geometric"), 1, agents=parrots("regression"))


@pytest.mark.parametrize("options", [{"mean": "geometric"}, {"most_samples": 3.0}])
def test_a_rule_that_makes_labels_itself_takes_neither_geometric_mean_nor_samples(options):
    with pytest.raises(ConsilienceError, match="neither the geometric mean nor the number of samples counts"):
        rounds_of(Consensus(warmup=0, trust=Vote(), **options), 1)


@pytest.mark.parametrize("trust", [Uniform(), Stratified(sharpness=0), Paper()])
@pytest.mark.parametrize("listening", [{}, {"listening": Sparse(3)}])
def test_a_peer_counts_by_its_samples_up_to_the_bound(trust, listening):
    samples = dict(zip(NAMES, (10, 20, 20, 900), strict=True))
    plain, weighed = (
        rounds_of(Consensus(warmup=0, trust=trust, most_samples=most, **listening), 1, InMemory(NAMES, samples=samples))
        for most in (0.0, 3.0)
    )
    before, after = plain[0].record.trust, weighed[0].record.trust
    for row in range(4):
        expected = before[row] * [1, 2, 2, 6]
        np.testing.assert_allclose(after[row], expected / expected.sum(), rtol=1e-5)
