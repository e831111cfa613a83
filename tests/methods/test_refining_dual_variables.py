"""Options of consensus that change pseudo-labels, and what they cost."""

import numpy as np
import pytest

from consilience import Consensus, ConsilienceError, Sequential, Sparse, Stratified, Uniform
from consilience.extend import InMemory, Start
from consilience.methods.trust.labels import Vote
from tests.methods.parrot import NAMES, SAMPLES, Lossy, first_words, parrots, rounds_of


def test_what_is_predicted_for_peers_is_counted():
    rounds = rounds_of(Consensus(warmup=1), 3)
    assert [done.record.losses[NAMES[0]].forward for done in rounds] == [0, SAMPLES, SAMPLES]


def test_with_duals_an_agent_is_asked_for_what_makes_up_for_its_difference():
    """A parrot says next what it was asked for, which is as far on the other side of the mean."""
    words = first_words("regression")
    agents = parrots("regression")
    rounds_of(Consensus(warmup=0, trust=Uniform(), duals=1.0), 1, agents=agents)
    for agent, said in zip(agents, words, strict=True):
        np.testing.assert_allclose(agent.says, 2 * words.mean(axis=0) - said, atol=1e-5)


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_duals_are_kept_for_who_is_not_heard_and_go_through_the_checkpoint(task):
    method = Consensus(warmup=0, trust=Uniform(), duals=0.5)
    exchange = Lossy({2: {"b"}})
    whole, stopped = parrots(task), parrots(task)
    rounds = rounds_of(method, 4, exchange, whole)
    first, second = (done.memory.own["b"]["duals"] for done in rounds[:2])
    assert np.abs(first).max() > 0
    np.testing.assert_array_equal(first, second)
    done = rounds_of(method, 2, exchange, stopped)[-1]
    rounds_of(method, 4, exchange, stopped, Start(4, done=2, memory=done.memory))
    for one, two in zip(whole, stopped, strict=True):
        np.testing.assert_array_equal(one.says, two.says)


def test_duals_are_named_in_tables():
    assert Consensus(duals=1.0).title == "consensus (duals)"
    assert Consensus(duals=0.5, listening=Sparse(2)).title == "consensus (2 + 4 peers, duals)"


def test_a_checkpoint_without_duals_is_refused():
    done = rounds_of(Consensus(warmup=0), 1)[-1]
    with pytest.raises(ConsilienceError, match="does not hold what"):
        rounds_of(Consensus(warmup=0, duals=1.0), 2, start=Start(2, done=1, memory=done.memory))


@pytest.mark.parametrize("trust", [Uniform(), Stratified()])
def test_duals_in_hindsight_go_through_the_checkpoint_and_sum_to_zero(trust):
    method = Consensus(warmup=0, trust=trust, duals=1.0, mean="geometric", most_samples=2.0)
    samples = dict(zip(NAMES, (10, 20, 20, 900), strict=True))
    whole, stopped = parrots(), parrots()
    expected = rounds_of(method, 5, InMemory(NAMES, samples=samples), whole)
    done = rounds_of(method, 2, InMemory(NAMES, samples=samples), stopped)[-1]
    rounds_of(method, 5, InMemory(NAMES, samples=samples), stopped, Start(5, done=2, memory=done.memory))
    for one, two in zip(whole, stopped, strict=True):
        np.testing.assert_array_equal(one.says, two.says)
    d = np.stack([expected[0].memory.common[f"deviations/{name}"] for name in NAMES])
    assert np.abs(d).max() > 0.1
    np.testing.assert_allclose(d.sum(axis=0), 0, atol=1e-4)
    with pytest.raises(ConsilienceError, match="does not hold what"):
        start = Start(3, done=2, memory=done.memory)
        rounds_of(Consensus(warmup=0, duals=1.0, most_samples=2.0), 3, start=start)


@pytest.mark.parametrize("options", [{"learning": Sequential()}, {"trust": Vote()}])
def test_duals_are_for_soft_labels_that_are_learned_together_with_private_ones(options):
    with pytest.raises(ConsilienceError, match="Set duals=0"):
        Consensus(duals=1.0, **options)
