"""Sparse exchange: agents hear a few peers, and judge those alone."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from consilience import Consensus, Sparse
from consilience.base.errors import ConsilienceError
from consilience.extend import Context, Received, Start
from consilience.federation.peers.federation import check_method
from consilience.methods.trust import trust_named
from consilience.methods.trust.labels import Vote
from consilience.methods.trust.simple import Paper, Uniform
from consilience.methods.trust.stratified import Stratified
from consilience.tasks import task_named
from tests.methods.parrot import NAMES, SAMPLES, Elsewhere, Parrot, first_words, parrots, rounds_of

SPARSE = Consensus(warmup=1, listening=Sparse(1, 1))


def test_everyone_hears_itself_and_as_many_others_as_it_asked_for() -> None:
    for done in rounds_of(SPARSE, 5)[1:]:
        record = done.record
        assert record.peers is not None and record.trust is not None
        assert record.peers.shape == record.trust.shape == (4, 3)
        np.testing.assert_allclose(record.trust.sum(axis=1), 1)
        for own, peers in enumerate(record.peers):
            assert own in peers and len(set(peers.tolist())) == 3


def test_the_peer_that_is_trusted_most_is_heard_again() -> None:
    done = rounds_of(SPARSE, 8)[1:]
    for before, after in pairwise(done):
        for own in range(4):
            others = before.record.peers[own] != own
            trust, peers = before.record.trust[own][others], before.record.peers[own][others]
            assert peers[trust.argmax()] in after.record.peers[own]


@pytest.mark.parametrize("rule", ["uniform", "paper", "centred", "stratified", "median", "expguard", "kt-pfl"])
def test_trust_is_that_of_the_rule_among_those_who_were_heard(rule: str) -> None:
    method = replace(SPARSE, warmup=0, trust=trust_named(rule))
    done = rounds_of(method, 1)[0]
    f, task = first_words(), task_named("classification")
    for own, name in enumerate(NAMES):
        peers = done.record.peers[own]
        here = np.flatnonzero(peers == own)
        said = trust_named(rule)(f[peers], Context(task, tuple(NAMES[j] for j in peers), here, np.ones(3), 1))
        matrix, labels = getattr(said, "trust", said), getattr(said, "labels", None)
        np.testing.assert_allclose(done.record.trust[own], matrix[here[0]])
        slow = np.zeros((SAMPLES, 3))
        for place, j in enumerate(peers):
            slow += matrix[here[0], place] * f[j]
        expected = slow if labels is None else labels[0]
        np.testing.assert_allclose(done.record.predictions[name], expected, atol=1e-6)


def test_with_all_peers_the_paper_and_naive_trust_are_what_they_were() -> None:
    for rule in (Paper(), Uniform(), Stratified()):
        dense = rounds_of(Consensus(warmup=0, trust=rule), 3)
        sparse = rounds_of(Consensus(warmup=0, trust=rule, listening=Sparse(3)), 3)
        for one, other in zip(dense, sparse, strict=True):
            np.testing.assert_allclose(one.record.trust, other.record.trust, atol=1e-6)
            for name in NAMES:
                np.testing.assert_allclose(one.record.predictions[name], other.record.predictions[name], atol=1e-5)


def test_bytes_are_those_sent_to_whoever_listens() -> None:
    for done in rounds_of(SPARSE, 4)[1:]:
        listeners = [sum(j in done.record.peers[i] for i in range(4) if i != j) for j in range(4)]
        size = SAMPLES * 3 * 4
        assert [done.record.sent[name] for name in NAMES] == [size * count for count in listeners]
        assert sum(done.record.sent.values()) == 4 * 2 * size


def test_who_is_heard_follows_from_seed_and_round_and_not_from_who_else_is_here() -> None:
    whole = rounds_of(SPARSE, 2)[1].record
    again = rounds_of(SPARSE, 2)[1].record
    other = rounds_of(SPARSE, 2, start=Start(2, seed=1))[1].record
    assert np.array_equal(whole.peers, again.peers)
    assert not np.array_equal(whole.peers, other.peers)
    said = dict(zip(NAMES, first_words(), strict=True))

    class Apart:
        """The other agents live elsewhere, and say what they say at first."""

        roster = NAMES

        def gather(self, number, own_predictions):
            raise AssertionError

        def gather_some(self, number, own_predictions, wanted):
            return Received(said | own_predictions, dict.fromkeys(own_predictions, 0))

    some = rounds_of(replace(SPARSE, warmup=0), 1, Apart(), [Parrot("d"), Parrot("b")])[0].record
    all_of = rounds_of(replace(SPARSE, warmup=0), 1)[0].record
    assert np.array_equal(some.peers, all_of.peers[[1, 3]])
    assert np.array_equal(some.trust, all_of.trust[[1, 3]])


@pytest.mark.parametrize("schedule", ["dynamic", "static", "every-2"])
def test_sparse_rounds_go_on_bit_for_bit_after_an_interruption(schedule: str) -> None:
    method = replace(SPARSE, schedule=schedule, trust=Paper())
    whole = rounds_of(method, 6)
    agents = parrots()
    first = rounds_of(method, 3, agents=agents)
    rest = rounds_of(method, 6, agents=agents, start=Start(6, 3, first[-1].memory))
    for one, other in zip(whole[3:], rest, strict=True):
        assert np.array_equal(one.record.peers, other.record.peers)
        assert np.array_equal(one.record.trust, other.record.trust)
        assert all(np.array_equal(one.record.predictions[n], other.record.predictions[n]) for n in NAMES)


def test_kept_trust_keeps_the_peers_too() -> None:
    done = rounds_of(replace(SPARSE, schedule="static", trust=Paper()), 5)[1:]
    assert all(np.array_equal(done[0].record.peers, one.record.peers) for one in done)
    assert all(np.array_equal(done[0].record.trust, one.record.trust) for one in done)


def test_majority_is_the_vote_of_those_who_were_heard() -> None:
    done = rounds_of(Consensus(warmup=0, listening=Sparse(1, 1), trust=Vote()), 1)[0].record
    f = first_words()
    for own, name in enumerate(NAMES):
        votes = f[done.peers[own]].argmax(axis=2)
        winner = [np.bincount(column, minlength=3).argmax() for column in votes.T]
        assert np.array_equal(done.predictions[name], np.eye(3, dtype=np.float32)[winner])


def test_where_everyone_hears_everyone_a_few_peers_are_refused() -> None:
    with pytest.raises(ConsilienceError, match="Set listening=everyone"):
        rounds_of(replace(SPARSE, warmup=0), 1, Elsewhere())
    with pytest.raises(ConsilienceError, match="between sites"):
        check_method(SPARSE)


def test_a_checkpoint_of_whole_matrices_is_refused() -> None:
    memory = rounds_of(Consensus(warmup=0), 1)[0].memory
    with pytest.raises(ConsilienceError, match="does not hold what"):
        rounds_of(SPARSE, 3, start=Start(3, 1, memory))


def test_the_title_says_how_many_are_heard() -> None:
    assert SPARSE.title == "consensus (1 + 1 peers)"
    assert replace(SPARSE, trust=Paper()).title == "consensus (paper, 1 + 1 peers)"
