"""An agent around another one works wherever the agent does."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from torch import nn

from consilience import Consensus, FedAvg, Paper, SklearnAgent, TorchAgent, collaborate
from consilience.agents import batched
from consilience.agents.batched import units
from consilience.agents.training import Training
from consilience.extend import Losses, Wrapper
from tests.agents.together import train_all
from tests.conftest import CLASSES, FEATURES, blobs


def plain(name: str, seed: int = 0) -> TorchAgent:
    import torch

    torch.manual_seed(seed)
    return TorchAgent(nn.Linear(FEATURES, CLASSES), *blobs(30, seed), name, training=Training(epochs=2))


def estimator(name: str, seed: int = 0) -> SklearnAgent:
    return SklearnAgent(LogisticRegression(), *blobs(30, seed), name)


class Sure(Wrapper):
    """Publishes its choice as if it were certain."""

    def publish(self, shared):
        return np.eye(CLASSES, dtype=np.float32)[self.agent.predict(shared).argmax(axis=1)]


class Counting(Wrapper):
    """Trains in its own way."""

    trained = 0

    def train(self, shared, labels, lam):
        self.trained += 1
        return self.agent.train(shared, labels, lam)


def test_everything_is_passed_on(shared):
    agent = plain("a")
    wrapped = Wrapper(agent)
    assert (wrapped.name, wrapped.samples, wrapped.outputs, wrapped.kind) == ("a", 30, CLASSES, "Linear")
    assert isinstance(wrapped.train(shared, None, 0.0), Losses)
    np.testing.assert_array_equal(wrapped.predict(shared), agent.predict(shared))
    assert wrapped.state().keys() == agent.state().keys()
    with pytest.raises(AttributeError, match="nonsense"):
        wrapped.nonsense  # noqa: B018


def test_what_the_agent_has_is_set_on_the_agent_and_all_else_on_the_wrapper():
    agent = plain("")
    wrapped = Counting(Wrapper(agent))
    wrapped.name = "b"
    wrapped.noise = 2.0
    wrapped.trained = 5
    wrapped.mine = 1
    assert (agent.name, agent.noise) == ("b", 2.0)
    assert (wrapped.name, wrapped.trained, wrapped.mine) == ("b", 5, 1)
    assert not hasattr(agent, "trained")
    assert not hasattr(agent, "mine")
    assert Counting.trained == 0


def test_a_wrapper_may_have_a_field_that_its_agent_has_too():
    class Renamed(Wrapper):
        def __init__(self, agent, kind):
            super().__init__(agent)
            object.__setattr__(self, "kind", kind)

    agent = plain("a")
    wrapped = Renamed(agent, "mine")
    assert (wrapped.kind, agent.kind) == ("mine", "Linear")
    wrapped.kind = "ours"
    assert (wrapped.kind, agent.kind) == ("ours", "Linear")


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_wrapper_can_be_copied_and_sent(again, shared):
    wrapped = Sure(estimator("a"))
    wrapped.train(shared, None, 0.0)
    other = again(wrapped)
    assert type(other) is Sure
    np.testing.assert_array_equal(other.publish(shared), wrapped.publish(shared))


def test_a_wrapper_that_leaves_training_alone_trains_in_the_batch_to_the_same_bits(shared):
    bare, wrapped = [plain("a"), plain("b", 1)], [Sure(plain("a")), Wrapper(Sure(plain("b", 1)))]
    assert units(wrapped) == units(bare) == [["a", "b"]]
    labels = {name: np.full((len(shared), CLASSES), 1 / CLASSES, np.float32) for name in "ab"}
    for _ in range(2):
        assert train_all(wrapped, shared, labels, 0.5) == train_all(bare, shared, labels, 0.5)
    for one, two in zip(wrapped, bare, strict=True):
        assert all(np.array_equal(value, two.state()[key]) for key, value in one.state().items())


def test_a_wrapper_that_trains_in_its_own_way_is_asked_to(shared, monkeypatch):
    agents = [Counting(plain("a")), plain("b", 1), plain("c", 2), Wrapper(Counting(plain("d", 3)))]
    assert units(agents) == [["a"], ["b", "c"], ["d"]]
    stacked = []
    real = batched._train
    monkeypatch.setattr(batched, "_train", lambda agents, *rest: stacked.extend(agents) or real(agents, *rest))
    losses = train_all(agents, shared, {}, 0.0)
    assert list(losses) == ["a", "b", "c", "d"]
    assert [agent.name for agent in stacked] == ["b", "c"]
    assert agents[0].trained == agents[3].trained == 1


def test_a_wrapper_with_another_name_is_not_trained_in_the_batch(shared):
    class Alias(Wrapper):
        name = "alias"

    assert units([Alias(plain("a")), plain("b", 1)]) == [["alias"], ["b"]]
    assert list(train_all([Alias(plain("a")), plain("b", 1)], shared, {}, 0.0)) == ["alias", "b"]


@pytest.mark.parametrize("make", [plain, estimator])
def test_wrapped_agents_collaborate_to_the_same_numbers(shared, make):
    def run(wrap):
        return collaborate([wrap(make("", seed)) for seed in range(3)], shared, method=Consensus(warmup=1), rounds=3)

    bare, wrapped = run(lambda agent: agent), run(Wrapper)
    assert wrapped.run.names == ["0", "1", "2"]
    np.testing.assert_array_equal(wrapped.trust, bare.trust)
    assert wrapped.history.equals(bare.history)


def test_peers_hear_what_a_wrapper_publishes(shared):
    """Two that publish their choices agree fully where the choices do."""
    agents = [Sure(SklearnAgent(GaussianNB(), *blobs(30, seed), str(seed))) for seed in range(2)]
    result = collaborate(agents, shared, method=Consensus(warmup=1, trust=Paper()), rounds=1 + 1)
    choices = [agent.predict(shared) for agent in (SklearnAgent(GaussianNB(), *blobs(30, seed)) for seed in range(2))]
    agree = (choices[0].argmax(axis=1) == choices[1].argmax(axis=1)).mean()
    np.testing.assert_allclose(result.trust[0, 0], [1 / (1 + agree), agree / (1 + agree)])


def test_models_within_wrappers_are_averaged(shared):
    agents = [Wrapper(plain("a")), plain("b", 1)]
    collaborate(agents, shared, method=FedAvg(), rounds=2)
    one, two = (agent.weights() for agent in agents)
    assert all(np.array_equal(one[key], two[key]) for key in one)
