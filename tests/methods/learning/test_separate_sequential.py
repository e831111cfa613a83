"""Consensus in two phases: private data, then what peers say after that."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from consilience import Consensus, Paper, Sequential, SklearnAgent, Sparse, TorchAgent, Uniform
from consilience.agents.local_agents import LocalAgents
from consilience.agents.training import Training
from consilience.core.labels import pseudo_labels
from consilience.core.trust import entropy_trust
from consilience.extend import InMemory, Losses, Received, Start
from tests.conftest import blobs
from tests.methods.models import plain_network

pytestmark = pytest.mark.usefixtures("one_thread")
APART = Consensus(warmup=0, trust=Paper(), learning=Sequential(3))


def network(name="a", seed=0):
    return TorchAgent(
        plain_network(seed), *blobs(30, seed), name, training=Training(epochs=2, batch=16, shared_batch=16)
    )


def estimator(name="e"):
    return SklearnAgent(LogisticRegression(), *blobs(30, 9), name)


def same(one, two, shared) -> bool:
    """Up to rounding: small networks train together."""
    return np.allclose(one.predict(shared), two.predict(shared), atol=1e-5)


def test_a_round_by_hand(shared):
    """Two networks train on private data, then speak, and each distils the pseudo-labels that follow."""
    agents, by_hand = [[network("a", 0), network("b", 1)] for _ in range(2)]
    local = [agent.train(shared, None, 0.0) for agent in by_hand]
    f = np.stack([agent.predict(shared) for agent in by_hand])
    w = entropy_trust(f)
    psi = pseudo_labels(w, f)
    digested = [agent.train_on_shared(shared, labels, 3) for agent, labels in zip(by_hand, psi, strict=True)]
    [done] = APART.rounds(LocalAgents(agents), shared, InMemory(("a", "b")), Start(1))
    assert same(agents[0], by_hand[0], shared) and same(agents[1], by_hand[1], shared)
    np.testing.assert_allclose(done.record.trust, w, rtol=1e-5)
    cost = {"trained": 2 * 30 + 3 * len(shared), "forward": len(shared)}
    expected = Losses(pytest.approx(local[0].local), pytest.approx(digested[0].disagreement), **cost)
    assert done.record.losses["a"] == expected
    assert done.record.received == {}, "what they said in this round is not what they said after the last"
    np.testing.assert_allclose(done.record.predictions["a"], by_hand[0].predict(shared), atol=1e-5)


def test_an_estimator_learns_one_set_from_networks_after_private_training(shared):
    agents, by_hand = [[estimator(), network("n")] for _ in range(2)]
    by_hand[1].train(shared, None, 0.0)
    psi = np.stack([agent.predict(shared) for agent in by_hand]).mean(axis=0)
    by_hand[0].train(shared, psi, len(shared) / 30)
    by_hand[1].train_on_shared(shared, psi, 5)
    method = Consensus(warmup=0, trust=Uniform(), learning=Sequential())
    list(method.rounds(LocalAgents(agents), shared, InMemory(("e", "n")), Start(1)))
    for one, other in zip(agents, by_hand, strict=True):
        np.testing.assert_allclose(one.predict(shared), other.predict(shared), atol=1e-5)


def test_the_warm_up_and_lambda_0_are_as_ever(shared):
    one, two = network(), network()
    method = Consensus(warmup=2, learning=Sequential())
    list(method.rounds(LocalAgents([one]), shared, InMemory(("a",)), Start(2)))
    list(Consensus(warmup=2).rounds(LocalAgents([two]), shared, InMemory(("a",)), Start(2)))
    assert same(one, two, shared)
    list(
        Consensus(warmup=0, lam=0, learning=Sequential()).rounds(LocalAgents([one]), shared, InMemory(("a",)), Start(1))
    )
    list(Consensus(warmup=0, lam=0).rounds(LocalAgents([two]), shared, InMemory(("a",)), Start(1)))
    assert same(one, two, shared)


class Deaf(InMemory):
    """Hears nobody of the name b."""

    def gather(self, number, own):
        answer = super().gather(number, own)
        return Received({n: f for n, f in answer.predictions.items() if n != "b"}, answer.sent, answer.number)


def test_an_agent_whom_nobody_heard_has_trained_on_its_private_data(shared):
    agents, by_hand = [network("a", 0), network("b", 1)], network("b", 1)
    [done] = APART.rounds(LocalAgents(agents), shared, Deaf(("a", "b")), Start(1))
    losses = by_hand.train(shared, None, 0.0)
    assert same(agents[1], by_hand, shared)
    assert done.record.losses["b"].local == pytest.approx(losses.local)
    assert done.record.losses["a"].trained == 2 * 30 + 3 * len(shared)


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({}, "consensus"),
        ({"learning": Sequential()}, "consensus (sequential)"),
        (
            {"learning": Sequential(), "listening": Sparse(8), "trust": Paper()},
            "consensus (paper, 8 + 4 peers, sequential)",
        ),
        ({"listening": Sparse(8)}, "consensus (8 + 4 peers)"),
        ({"trust": Uniform()}, "naive"),
    ],
)
def test_tables_say_it(changes, title):
    assert Consensus(**changes).title == title
